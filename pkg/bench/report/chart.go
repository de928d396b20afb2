// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/output"
)

// The drawings are small on purpose: several stand side by side on a wide screen,
// and their text can still be read on a narrow one. Units are those of the viewBox; the
// template has the same places.
const (
	chartWidth  = 420.0
	chartHeight = 250.0
	plotLeft    = 50.0
	plotRight   = chartWidth - 20
	plotTop     = 10.0
	plotBottom  = chartHeight - 42
)

// line is drawn in the colour of its scheduler.
type line struct {
	// Scheduler is its index.
	Scheduler int
	// Kind is "median", "round", or "excluded" for a round that does not count.
	Kind string
	Path string
}

// chart is a drawing of lines. Every text in it came through output.Line.
type chart struct {
	Title, Description string
	X, Y               *axis
	XLabel, YLabel     string
	Lines              []line
}

// kind is how the line of a round is drawn.
func (r *Round) kind() string {
	if len(r.Invalid) > 0 {
		return "excluded"
	}
	return "round"
}

// maxSteps is how many steps a curve over time has at most: more than that cannot
// be told apart, and a long run would make a large file.
const maxSteps = 300

// secondsPerStep is for all curves over time of a phase.
func (r *Report) secondsPerStep(phase Phase, steps int) int {
	return max(1, (r.longestRound(phase)+steps-1)/steps)
}

// minCurveSeconds is from which length on pods are drawn over time, a second a step:
// what is shorter is a rectangle or two, and says less than the throughput.
const minCurveSeconds = 4

// longestRound is how many seconds the longest round of a phase took, up to its last
// binding.
func (r *Report) longestRound(phase Phase) int {
	longest := 0
	for i := range r.Schedulers {
		for round := range r.Schedulers[i].RoundsIn(phase) {
			longest = max(longest, len(round.BoundPerSecond))
		}
	}
	return longest
}

// inSteps returns the mean of each step.
func inSteps(counts []int, seconds int) []float64 {
	var steps []float64
	for chunk := range slices.Chunk(counts, seconds) {
		sum := 0
		for _, count := range chunk {
			sum += count
		}
		steps = append(steps, float64(sum)/float64(seconds))
	}
	return steps
}

// boundCurves returns the pods bound a second in each round of a phase, and the
// median of the rounds that count: in each step on its own, where a round that is
// over binds nothing.
func (s *Scheduler) boundCurves(phase Phase, seconds int) (curves [][]float64, kinds []string, middle []float64) {
	longest := 0
	var valid [][]float64
	for round := range s.RoundsIn(phase) {
		if len(round.BoundPerSecond) == 0 {
			continue
		}
		curve := inSteps(round.BoundPerSecond, seconds)
		curves, kinds = append(curves, curve), append(kinds, round.kind())
		if len(round.Invalid) == 0 {
			valid = append(valid, curve)
			longest = max(longest, len(curve))
		}
	}
	for step := range longest {
		values := make([]float64, len(valid))
		for i, curve := range valid {
			if step < len(curve) {
				values[i] = curve[step]
			}
		}
		middle = append(middle, Median(values))
	}
	return curves, kinds, middle
}

// throughputCharts draws pods bound over time: a chart for each scheduler, all with
// the same axes.
func (r *Report) throughputCharts(phase Phase) []*chart {
	seconds := r.secondsPerStep(phase, maxSteps)
	var charts []*chart
	longest, most := 0, 0.0
	type drawing struct {
		lines []line
		steps [][]float64
	}
	var drawings []drawing
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		curves, kinds, middle := s.boundCurves(phase, seconds)
		if len(curves) == 0 {
			continue
		}
		var d drawing
		for k, curve := range curves {
			longest, most = max(longest, len(curve)), max(most, slices.Max(curve))
			d.lines, d.steps = append(d.lines, line{Scheduler: i, Kind: kinds[k]}), append(d.steps, curve)
		}
		if len(middle) > 0 {
			d.lines, d.steps = append(d.lines, line{Scheduler: i, Kind: "median"}), append(d.steps, middle)
		}
		drawings = append(drawings, d)
		charts = append(charts, &chart{
			Title: output.Line(s.Name), XLabel: "seconds from the first pod", YLabel: "pods bound/s",
			Description: fmt.Sprintf("Pods that %s bound in each %s; %s.", output.Line(s.Name), step(seconds), s.throughputInWords(phase)),
		})
	}
	for i, c := range charts {
		c.X, c.Y = linearAxis(float64(longest*seconds), plotLeft, plotRight), linearAxis(most, plotBottom, plotTop)
		for k, l := range drawings[i].lines {
			l.Path = c.steps(drawings[i].steps[k], seconds)
			c.Lines = append(c.Lines, l)
		}
	}
	return charts
}

// step names the width of a step.
func step(seconds int) string {
	if seconds == 1 {
		return "second"
	}
	return fmt.Sprintf("%d seconds, a second on average", seconds)
}

// throughputInWords is for those who cannot see the curve.
func (s *Scheduler) throughputInWords(phase Phase) string {
	spread, ok := s.Summary[phase][Throughput]
	if !ok {
		return "no round counts"
	}
	return fmt.Sprintf("over the whole round %s pods a second, median of %s", spread.cell(throughputMetric()), output.Count(spread.Rounds, "round"))
}

// steps draws a curve that is constant within each step.
func (c *chart) steps(values []float64, seconds int) string {
	var path strings.Builder
	fmt.Fprintf(&path, "M%g %g", c.X.at(0), c.Y.at(0))
	for i, value := range values {
		fmt.Fprintf(&path, "V%gH%g", c.Y.at(value), c.X.at(float64((i+1)*seconds)))
	}
	fmt.Fprintf(&path, "V%g", c.Y.at(0))
	return path.String()
}

// latencyChart draws the distribution of the latency, or returns nil where no round
// has one.
func (r *Report) latencyChart(phase Phase) *chart {
	low, high := math.Inf(1), 0.0
	for i := range r.Schedulers {
		for round := range r.Schedulers[i].RoundsIn(phase) {
			for _, latency := range round.LatencyMillis {
				high = max(high, latency)
				if latency >= smallest {
					low = min(low, latency)
				}
			}
		}
	}
	if high < smallest {
		return nil
	}
	c := &chart{
		Title:  phaseTitles[phase],
		XLabel: "milliseconds from creation to binding, logarithmic", YLabel: "% of the pods bound",
		X: logAxis(low, high, plotLeft, plotRight), Y: linearAxis(100, plotBottom, plotTop),
	}
	var words []string
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		for round := range s.RoundsIn(phase) {
			if len(round.LatencyMillis) > 0 {
				c.Lines = append(c.Lines, line{Scheduler: i, Kind: round.kind(), Path: c.distribution(round.LatencyMillis)})
			}
		}
		if middle := s.latencies(phase); middle != nil {
			c.Lines = append(c.Lines, line{Scheduler: i, Kind: "median", Path: c.distribution(middle)})
			words = append(words, fmt.Sprintf("%s: half within %.1f ms, 99 %% within %.1f ms", output.Line(s.Name), middle[50], middle[99]))
		}
	}
	// Medians last: they lie on top.
	slices.SortStableFunc(c.Lines, func(a, b line) int { return rank(a.Kind) - rank(b.Kind) })
	c.Description = "How many of the pods were bound within a time. " + strings.Join(words, "; ")
	return c
}

// rank orders the kinds of lines from below to above.
func rank(kind string) int { return slices.Index([]string{"excluded", "round", "median"}, kind) }

// latencies returns the median of the rounds that count at each percentage, or nil.
func (s *Scheduler) latencies(phase Phase) []float64 {
	var valid [][]float64
	for round := range s.RoundsIn(phase) {
		if len(round.Invalid) == 0 && round.Inexact[LatencyP50] == "" && len(round.LatencyMillis) == latencyPoints {
			valid = append(valid, round.LatencyMillis)
		}
	}
	if len(valid) == 0 {
		return nil
	}
	var middle []float64
	for percent := range latencyPoints {
		values := make([]float64, len(valid))
		for i := range valid {
			values[i] = valid[i][percent]
		}
		middle = append(middle, Median(values))
	}
	return middle
}

// distribution draws latencies at 0, 1, …, 100 percent.
func (c *chart) distribution(latencies []float64) string {
	var path strings.Builder
	for percent, latency := range latencies {
		sign := "L"
		if percent == 0 {
			sign = "M"
		}
		fmt.Fprintf(&path, "%s%g %g", sign, c.X.at(latency), c.Y.at(float64(percent)))
	}
	return path.String()
}
