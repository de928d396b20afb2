// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/berth-scheduler/berth/pkg/output"
)

// The kinds of lines, from below to above; the style of the page has a class for each.
const (
	kindExcluded = "excluded" // of a round that does not count
	kindRound    = "round"
	kindMedian   = "median"
)

var kinds = []string{kindExcluded, kindRound, kindMedian}

// line is drawn in the colour of its scheduler.
type line struct {
	// Scheduler is its index.
	Scheduler int
	Kind      string
	Points    plotter.XYs
	// steps draws each value up to the next point.
	steps bool
}

// chart is a drawing of lines. Every text in it came through output.Line.
type chart struct {
	Title, Description string
	XLabel, YLabel     string
	// x and y set up the axes.
	x, y  func(*plot.Axis)
	Lines []line
}

// kind is how the line of a round is drawn.
func (r *Round) kind() string {
	if len(r.Invalid) > 0 {
		return kindExcluded
	}
	return kindRound
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
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		curves, kinds, middle := s.boundCurves(phase, seconds)
		if len(curves) == 0 {
			continue
		}
		c := &chart{
			Title: output.Line(s.Name), XLabel: "seconds from the first pod", YLabel: "pods bound/s",
			Description: fmt.Sprintf("Pods that %s bound in each %s; %s.", output.Line(s.Name), step(seconds), s.throughputInWords(phase)),
		}
		for k, curve := range curves {
			longest, most = max(longest, len(curve)), max(most, slices.Max(curve))
			c.Lines = append(c.Lines, line{i, kinds[k], stepPoints(curve, seconds), true})
		}
		if len(middle) > 0 {
			c.Lines = append(c.Lines, line{i, kindMedian, stepPoints(middle, seconds), true})
		}
		charts = append(charts, c)
	}
	for _, c := range charts {
		c.x, c.y = from0To(float64(longest*seconds)), from0To(most)
	}
	return charts
}

// stepPoints begins each step of a curve, which starts and ends at 0.
func stepPoints(curve []float64, seconds int) plotter.XYs {
	points := plotter.XYs{{}}
	for i, value := range curve {
		points = append(points, plotter.XY{X: float64(i * seconds), Y: value})
	}
	end := float64(len(curve) * seconds)
	return append(points, plotter.XY{X: end})
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
		x: logarithmic(low, high), y: from0To(100),
	}
	var words []string
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		for round := range s.RoundsIn(phase) {
			if len(round.LatencyMillis) > 0 {
				c.Lines = append(c.Lines, line{i, round.kind(), distribution(round.LatencyMillis), false})
			}
		}
		if middle := s.latencies(phase); middle != nil {
			c.Lines = append(c.Lines, line{i, kindMedian, distribution(middle), false})
			words = append(words, fmt.Sprintf("%s: half within %.1f ms, 99 %% within %.1f ms", output.Line(s.Name), middle[50], middle[99]))
		}
	}
	// Medians last: they lie on top.
	slices.SortStableFunc(c.Lines, func(a, b line) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	c.Description = "How many of the pods were bound within a time. " + strings.Join(words, "; ")
	return c
}

// distribution has the points of latencies at 0, 1, …, 100 percent, for a logarithmic
// axis.
func distribution(latencies []float64) plotter.XYs {
	var points plotter.XYs
	for percent, latency := range latencies {
		points = append(points, plotter.XY{X: math.Log10(max(latency, smallest)), Y: float64(percent)})
	}
	return points
}

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
