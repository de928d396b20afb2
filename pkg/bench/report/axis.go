// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"
)

// tick is a labelled place on an axis.
type tick struct {
	// At is in the units of the drawing.
	At    float64
	Label string
}

// axis maps values to places in a drawing.
type axis struct {
	low, high float64
	// from and to are the places of low and high, in the units of the drawing.
	from, to float64
	isLog    bool
	Ticks    []tick
}

// at returns the place of a value; what lies beyond the axis is put on its end.
func (a *axis) at(value float64) float64 {
	low, high := a.low, a.high
	value = min(max(value, low), high)
	if a.isLog {
		low, high, value = math.Log(low), math.Log(high), math.Log(value)
	}
	return tenth(a.from + (a.to-a.from)*(value-low)/(high-low))
}

// tenth rounds a place: a drawing does not get better by more digits, only longer.
func tenth(place float64) float64 { return math.Round(10*place) / 10 }

// mark adds a tick at a value.
func (a *axis) mark(value float64) {
	a.Ticks = append(a.Ticks, tick{a.at(value), strconv.FormatFloat(value, 'f', -1, 64)})
}

// maxTicks is how many ticks of an axis can be told apart.
const maxTicks = 7

// smallest is the least value that a drawing tells from 0.
const smallest = 1e-6

// linearAxis starts at 0 and ends at a round number that is not below high.
func linearAxis(high, from, to float64) *axis {
	if high < smallest {
		high = 1
	}
	above := math.Pow(10, math.Floor(math.Log10(high))+1)
	var step float64
	// The last one gives five steps at most, for high is not more than above.
	for _, divisor := range []float64{50, 20, 10, 5} {
		if step = above / divisor; high/step <= maxTicks-1 {
			break
		}
	}
	steps := math.Ceil(high/step - 1e-9)
	a := &axis{high: steps * step, from: from, to: to}
	for i := 0.0; i <= steps; i++ {
		// Multiplied and cut, so that 3 × 0.1 reads 0.3.
		a.mark(math.Round(i*step*1e9) / 1e9)
	}
	return a
}

// logAxis begins and ends at powers of ten that have low and high between them. Both
// are at least smallest, and low is not above high.
func logAxis(low, high, from, to float64) *axis {
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	last = max(last, first+1)
	a := &axis{low: math.Pow10(first), high: math.Pow10(last), from: from, to: to, isLog: true}
	digits, every := []float64{1}, 1+(last-first)/maxTicks
	if last-first <= 2 {
		digits = []float64{1, 2, 5}
	}
	for exponent := first; exponent <= last; exponent += every {
		for _, digit := range digits {
			if value := digit * math.Pow10(exponent); value <= a.high {
				a.mark(value)
			}
		}
	}
	return a
}
