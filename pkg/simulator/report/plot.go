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
)

// Plot is a diagram of all profiles over the arrived load.
type Plot struct {
	// Name is the name of its file without an extension.
	Name string

	title, y string
	curve    func(*Series) Curve
}

// Plots returns the diagrams that a report has.
func Plots() []Plot {
	return []Plot{
		{"allocation", "Allocated GPUs", "GPUs allocated, %", func(s *Series) Curve { return s.AllocatedPercent }},
		{"fragmentation", "Fragmented GPUs", "GPUs idle and of no use to the expected pods, %", func(s *Series) Curve { return s.FragmentedPercent }},
		{"fragmentation-ratio", "Fragmentation ratio", "part of the idle GPUs that is of no use, %", func(s *Series) Curve { return s.FragmentationRatioPercent }},
	}
}

// size of a diagram.
const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 11 * vg.Centimeter
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
	diagram.Y.Min = 0
	diagram.Legend.Top, diagram.Legend.Left = true, true
	diagram.Add(plotter.NewGrid())
	for i := range r.Profiles {
		series := r.Profiles[i].Series
		if series == nil {
			continue
		}
		curve := p.curve(series)
		points := make(plotter.XYs, len(curve.Mean))
		for x, mean := range curve.Mean {
			points[x].X, points[x].Y = float64(x), mean
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("drawing %s of %s: %w", p.Name, r.Profiles[i].Name, err)
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		line.Width = vg.Points(1.5)
		diagram.Add(line)
		diagram.Legend.Add(r.Profiles[i].Name, line)
	}
	canvas, err := diagram.WriterTo(plotWidth, plotHeight, format)
	if err != nil {
		return fmt.Errorf("drawing %s as %s: %w", p.Name, format, err)
	}
	_, err = canvas.WriteTo(w)
	return err
}
