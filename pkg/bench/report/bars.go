// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strings"
)

const (
	// barSlot is the height of a scheduler's part of a chart of bars: a line of text and,
	// below it, a bar. The template has the places within it.
	barSlot  = 44.0
	barLeft  = 2.0
	barRight = chartWidth - 2
	// maxNameLength is how much of a name finds room beside the number.
	maxNameLength = 32
)

// bar is a metric of a scheduler.
type bar struct {
	Scheduler   int
	Name, Value string
	// Seen is false where the scheduler does not have the metric.
	Seen bool
	// Width is that of the bar up to the median; Low and High are the places of the least
	// and the most.
	Width, Low, High float64
	// Slot is where its part of the drawing begins.
	Slot float64
}

// barChart is a metric of all schedulers.
type barChart struct {
	Title, Description string
	// Better is "more is better", "less is better" or empty.
	Better string
	Bars   []bar
	Height float64
}

// qualityCharts draws the metrics of where the pods are.
func (r *Report) qualityCharts(phase Phase) []*barChart {
	var charts []*barChart
	for _, metric := range Metrics() {
		if cells := r.cells(phase, metric); metric.Quality && cells != nil {
			charts = append(charts, r.barChart(phase, metric, cells))
		}
	}
	return charts
}

func (r *Report) barChart(phase Phase, metric Metric, cells []cell) *barChart {
	high := 100.0
	if !metric.isPercentage() {
		high = 0
		for i := range r.Schedulers {
			high = max(high, r.Schedulers[i].Summary[phase][metric.Key].Max)
		}
	}
	at := func(value float64) float64 { return tenth(barLeft + (barRight-barLeft)*value/max(high, smallest)) }
	c := &barChart{Title: metric.Title}
	switch metric.Better {
	case +1:
		c.Better = "more is better"
	case -1:
		c.Better = "less is better"
	}
	var words []string
	for i, name := range r.names() {
		spread, seen := r.Schedulers[i].Summary[phase][metric.Key]
		if !seen && r.isControl(i) {
			continue // it binds pods anywhere, and nobody asks where
		}
		if !seen {
			c.Better = "" // there is nothing to be better than
		}
		b := bar{Scheduler: i, Name: shortened(name), Value: cells[i].String(), Seen: seen, Slot: barSlot * float64(len(c.Bars))}
		if seen {
			b.Width, b.Low, b.High = tenth(at(spread.Median)-barLeft), at(spread.Min), at(spread.Max)
		}
		c.Bars, c.Height = append(c.Bars, b), b.Slot+barSlot
		words = append(words, name+": "+cells[i].String())
	}
	c.Description = fmt.Sprintf("%s; median of the rounds that count, with the least and the most. %s.", metric.Title, strings.Join(words, "; "))
	return c
}

// shortened cuts a name that would run into the number beside it. The whole name
// stands in the tables.
func shortened(name string) string {
	if letters := []rune(name); len(letters) > maxNameLength {
		return string(letters[:maxNameLength-1]) + "…"
	}
	return name
}

// tenth rounds a place: a drawing does not get better by more digits, only longer.
func tenth(place float64) float64 { return math.Round(10*place) / 10 }
