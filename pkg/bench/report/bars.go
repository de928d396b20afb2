// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Places within a chart of bars: each scheduler has a line of text and, below it, a
// bar.
const (
	barSlot   = 44.0
	barText   = 14.0
	barTop    = 22.0
	barHeight = 12.0
	barLeft   = 2.0
	barRight  = chartWidth - 2
	// maxNameLength is how much of a name finds room beside the number.
	maxNameLength = 32
)

// bar is a metric of a scheduler.
type bar struct {
	Scheduler int
	Name      string
	Value     string
	// Seen is false where the scheduler does not have the metric.
	Seen bool
	// End, Low and High are the places of the median, the least and the most.
	End, Low, High float64
	// Slot is where its part of the drawing begins.
	Slot float64
}

// Places for the template.
func (b bar) TextY() float64 { return b.Slot + barText }
func (b bar) Top() float64   { return b.Slot + barTop }
func (bar) Left() float64    { return barLeft }
func (bar) Right() float64   { return barRight }
func (bar) Rail() float64    { return barRight - barLeft }
func (bar) Height() float64  { return barHeight }
func (b bar) Width() float64 { return tenth(b.End - barLeft) }

// Whisker draws the line from the least to the most, with a stroke at both ends.
func (b bar) Whisker() string {
	const top, base = barTop - 2, barTop + barHeight + 2
	y := func(place float64) float64 { return b.Slot + place }
	return fmt.Sprintf("M%g %gV%gM%g %gV%gM%g %gH%g", b.Low, y(top), y(base), b.High, y(top), y(base), b.Low, y(barTop+barHeight/2), b.High)
}

// barChart is a metric of all schedulers.
type barChart struct {
	Title, Description string
	// Better is "more is better", "less is better" or empty.
	Better string
	Bars   []bar
}

// Places for the template.
func (*barChart) Width() float64    { return chartWidth }
func (c *barChart) Height() float64 { return barSlot * float64(len(c.Bars)) }

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
	scale := linearAxis(high, barLeft, barRight)
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
			b.End, b.Low, b.High = scale.at(spread.Median), scale.at(spread.Min), scale.at(spread.Max)
		}
		c.Bars = append(c.Bars, b)
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
