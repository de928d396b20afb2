// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// drawn draws a line from one corner of a chart to the other, and returns its elements.
func drawn(t *testing.T, x, y func(*plot.Axis), from, to plotter.XY) []element {
	t.Helper()
	c := &chart{Title: "a chart", XLabel: "x", YLabel: "y", x: x, y: y, Lines: []line{{7, kindMedian, plotter.XYs{from, to}, false}}}
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, []byte(svg))
}

func TestAxisLabels(t *testing.T) {
	tests := []struct {
		name string
		axis func(*plot.Axis)
		want []string
	}{
		{name: "nothing", axis: from0To(0), want: []string{"0.0", "0.5", "1.0"}},
		{name: "percent", axis: from0To(100), want: []string{"0", "50", "100"}},
		{name: "one latency", axis: logarithmic(7, 7), want: []string{"1", "2", "5", "10"}},
		{name: "a round one", axis: logarithmic(10, 10), want: []string{"10", "20", "50", "100"}},
		{name: "milliseconds", axis: logarithmic(2.1, 61), want: []string{"1", "2", "5", "10", "20", "50", "100"}},
		{name: "to minutes", axis: logarithmic(2.1, 61000), want: []string{"1", "10", "100", "1000", "10000", "100000"}},
	}
	bare := func(axis *plot.Axis) { axis.Tick.Marker = plot.ConstantTicks{} }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var labels []string
			for _, e := range drawn(t, tt.axis, bare, plotter.XY{X: 0.5, Y: 0}, plotter.XY{X: 1, Y: 1}) {
				if text := strings.TrimSpace(e.text); e.name == "text" && text != "x" && text != "y" {
					labels = append(labels, text)
				}
			}
			if diff := cmp.Diff(tt.want, labels); diff != "" {
				t.Errorf("labels (-want,+got):\n%s", diff)
			}
		})
	}
}

// largest is more than anything that is measured here.
const largest = 1e15

// TestDrawingsHoldTheirValues draws ranges of all sizes.
func TestDrawingsHoldTheirValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draw := func() float64 {
		return smallest * math.Pow(largest/smallest, random.Float64())
	}
	for range 300 {
		low, high := draw(), draw()
		low, high = min(low, high), max(low, high)
		for name, x := range map[string]func(*plot.Axis){"linear": from0To(high), "logarithmic": logarithmic(low, high)} {
			from, to := low, high
			if name == "logarithmic" {
				from, to = math.Log10(low), math.Log10(high)
			}
			elements := drawn(t, x, from0To(100), plotter.XY{X: from, Y: 0}, plotter.XY{X: to, Y: 100})
			if n := count(elements, "path", "median"); n != 1 || count(elements, "path", "c1") != 1 {
				t.Fatalf("%s axis for %g to %g: %d medians, want one in the colour of the second scheduler", name, low, high, n)
			}
			labels := 0
			for _, e := range elements {
				if e.name == "text" {
					labels++
				}
				if e.name != "path" {
					continue
				}
				for _, place := range strings.FieldsFunc(e.attributes["d"], func(r rune) bool { return strings.ContainsRune("MLZ,", r) }) {
					if at, err := strconv.ParseFloat(place, 64); err != nil || at < 0 || at > chartWidth {
						t.Fatalf("%s axis for %g to %g: a path has %q", name, low, high, place)
					}
				}
			}
			if labels < 6 || labels > 24 {
				t.Fatalf("%s axis for %g to %g: %d labels", name, low, high, labels)
			}
		}
	}
}
