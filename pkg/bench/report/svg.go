// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	// The drawings are small on purpose: several stand side by side on a wide screen, and
	// their text can still be read on a narrow one. The template has the same size.
	chartWidth  = 420
	chartHeight = 250
	// textSize is the size of all text in a drawing, as the style of the page has it.
	textSize = 12
	// smallest is the least value that a drawing tells from 0.
	smallest = 1e-6
)

// The style of the page gives a drawing its colours, so that they follow the reader's
// choice of light or dark. Until then a colour stands for a class: its red part for
// the kind of line, its green part for the scheduler.
const colourStep = 16

func lineColour(kind, scheduler int) color.Color {
	return color.RGBA{R: uint8(colourStep*kind + colourStep/2), G: uint8(colourStep*(scheduler%colours) + colourStep/2), A: math.MaxUint8} //nolint:gosec // few kinds and colours
}

// SVG draws the chart, without the outer element and without any text of a user.
func (c *chart) SVG() (template.HTML, error) {
	diagram := plot.New()
	diagram.BackgroundColor = nil
	for axis, label := range map[*plot.Axis]string{&diagram.X: c.XLabel, &diagram.Y: c.YLabel} {
		axis.Label.Text = label
		for _, text := range []*font.Font{&axis.Label.TextStyle.Font, &axis.Tick.Label.Font} {
			text.Variant, text.Size = "Sans", textSize
		}
		axis.Width, axis.Tick.Width, axis.Tick.Length = 0, 0, 2
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color = lineColour(len(kinds), 0)
	grid.Vertical.Color = grid.Horizontal.Color
	diagram.Add(grid)
	for _, l := range c.Lines {
		drawn, err := plotter.NewLine(l.Points)
		if err != nil {
			return "", fmt.Errorf("drawing %s: %w", c.Title, err)
		}
		if l.steps {
			drawn.StepStyle = plotter.PostStep
		}
		drawn.Color = lineColour(slices.Index(kinds, l.Kind), l.Scheduler)
		diagram.Add(drawn)
	}
	// After the lines, which would widen them.
	c.x(&diagram.X)
	c.y(&diagram.Y)
	canvas := vgsvg.New(chartWidth, chartHeight)
	diagram.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("drawing %s: %w", c.Title, err)
	}
	_, body, _ := strings.Cut(out.String(), "<g ")
	body, _, _ = strings.Cut("<g "+body, "</svg>")
	return template.HTML(styles.ReplaceAllStringFunc(body, classOf)), nil //nolint:gosec // numbers, and labels of our own
}

var (
	styles = regexp.MustCompile(`\s*style="[^"]*"`)
	stroke = regexp.MustCompile(`stroke:#(..)(..)`)
)

// classOf returns the class that a style stands for.
func classOf(style string) string {
	found := stroke.FindStringSubmatch(style)
	if found == nil {
		return ` class="tick"`
	}
	kind, _ := strconv.ParseUint(found[1], 16, 8) // which gonum wrote
	scheduler, _ := strconv.ParseUint(found[2], 16, 8)
	if kind /= colourStep; int(kind) < len(kinds) { //nolint:gosec // below 16
		return fmt.Sprintf(` class="%s c%d"`, kinds[kind], scheduler/colourStep)
	}
	return ` class="grid-line"`
}

// from0To sets up an axis from 0 to a value.
func from0To(high float64) func(*plot.Axis) {
	return func(axis *plot.Axis) {
		axis.Min, axis.Max = 0, high
		if high < smallest {
			axis.Max = 1
		}
	}
}

// logarithmic sets up an axis of decimal logarithms, which begins and ends at powers of
// ten. A short one has labels at 2 and 5 too. (plot.LogScale leaves room at the right
// end for a label that it draws in the middle.)
func logarithmic(low, high float64) func(*plot.Axis) {
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	last = max(last, first+1)
	digits, every := []float64{1}, 1+(last-first)/maxTicks
	if last-first <= 2 {
		digits = []float64{1, 2, 5}
	}
	var ticks plot.ConstantTicks
	for exponent := first; exponent <= last; exponent += every {
		for _, digit := range digits {
			if value := digit * math.Pow10(exponent); value <= math.Pow10(last) {
				ticks = append(ticks, plot.Tick{Value: math.Log10(value), Label: strconv.FormatFloat(value, 'f', -1, 64)})
			}
		}
	}
	return func(axis *plot.Axis) {
		axis.Min, axis.Max, axis.Tick.Marker = float64(first), float64(last), ticks
	}
}

// maxTicks is how many ticks of an axis remain legible.
const maxTicks = 7
