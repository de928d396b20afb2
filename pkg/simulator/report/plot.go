// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot is a diagram of all profiles over the arrived load.
type Plot struct {
	// Name is the name of its file without an extension.
	Name string

	title, y string
	curve    func(*Series) Curve
	// from is the load at which it begins, in percent. One that begins later than at 0
	// has an axis that fits its curves: at the end they differ by little.
	from int
}

// endFrom is the load from which on profiles that place nearly everything differ.
const endFrom = 80

// Plots returns the diagrams that a report has.
func Plots() []Plot {
	return []Plot{
		{"allocation", "Allocated GPUs", "GPUs allocated, %", func(s *Series) Curve { return s.AllocatedPercent }, 0},
		{"allocation-end", "Allocated GPUs at the end", "GPUs allocated, % (does not begin at 0)", func(s *Series) Curve { return s.AllocatedPercent }, endFrom},
		{"fragmentation", "Fragmented GPUs", "GPUs idle and of no use to the expected pods, %", func(s *Series) Curve { return s.FragmentedPercent }, 0},
		{"fragmentation-ratio", "Fragmentation ratio", "part of the idle GPUs that is of no use, %", func(s *Series) Curve { return s.FragmentationRatioPercent }, 0},
	}
}

// size of a diagram.
const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 11 * vg.Centimeter
	// legendGap is around the legend, and between its lines.
	legendGap = 2 * vg.Millimeter
)

// HasPlots reports whether there is anything to draw: a cluster with devices.
func (r *Report) HasPlots() bool {
	for i := range r.Profiles {
		if r.Profiles[i].Series != nil {
			return true
		}
	}
	return false
}

// WritePlot draws a diagram, the mean of all runs for each profile. The format is
// "svg" or "png". Equal reports are equal bytes.
func (r *Report) WritePlot(w io.Writer, p Plot, format string) error {
	diagram := plot.New()
	diagram.Title.Text = p.title
	diagram.X.Label.Text = "GPUs asked for by all pods that have arrived, %"
	diagram.Y.Label.Text = p.y
	if p.from == 0 {
		diagram.Y.Min = 0
	}
	// Below the diagram: within it, it would hide the curves of many profiles.
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, legendGap
	diagram.Add(plotter.NewGrid())
	for i := range r.Profiles {
		series := r.Profiles[i].Series
		if series == nil {
			continue
		}
		curve := p.curve(series)
		var points plotter.XYs
		for x, mean := range curve.Mean {
			if x >= p.from {
				points = append(points, plotter.XY{X: float64(x), Y: mean})
			}
		}
		if len(points) == 0 {
			continue // this profile's pods did not come to that load
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("drawing %s of %s: %w", p.Name, r.Profiles[i].Name, err)
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		line.Width = vg.Points(1.5)
		diagram.Add(line)
		legend.Add(r.Profiles[i].Name, line)
	}
	canvas, err := draw.NewFormattedCanvas(plotWidth, plotHeight, format)
	if err != nil {
		return fmt.Errorf("drawing %s as %s: %w", p.Name, format, err)
	}
	whole := draw.New(canvas)
	strip := legend.Rectangle(whole).Size().Y + legendGap
	diagram.Draw(draw.Crop(whole, 0, 0, strip, 0))
	legend.Draw(draw.Crop(whole, legendGap, 0, 0, strip-plotHeight))
	_, err = canvas.WriteTo(w)
	return err
}
