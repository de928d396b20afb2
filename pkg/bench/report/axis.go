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

func (a *axis) mark(values []float64) {
	for _, value := range values {
		a.Ticks = append(a.Ticks, tick{a.at(value), strconv.FormatFloat(value, 'f', -1, 64)})
	}
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
	var values []float64
	for i := 0.0; i <= steps; i++ {
		// Multiplied and cut, so that 3 × 0.1 reads 0.3.
		values = append(values, math.Round(i*step*1e9)/1e9)
	}
	a.mark(values)
	return a
}

// logAxis ends at round numbers that have low and high between them. Both are
// at least smallest, and low is not above high.
func logAxis(low, high, from, to float64) *axis {
	var values []float64
	for exponent := math.Floor(math.Log10(low)); ; exponent++ {
		for _, digit := range []float64{1, 2, 5} {
			value := digit * math.Pow(10, exponent)
			if len(values) > 0 && value > low && values[len(values)-1] <= low {
				values = values[len(values)-1:]
			}
			values = append(values, value)
			if value >= high && len(values) > 1 {
				a := &axis{low: values[0], high: value, from: from, to: to, isLog: true}
				a.mark(sparse(values))
				return a
			}
		}
	}
}

// sparse leaves out what stands between powers of ten, if there are too many, and
// then every other power.
func sparse(values []float64) []float64 {
	if len(values) <= maxTicks {
		return values
	}
	var powers []float64
	for _, value := range values {
		if exponent := math.Log10(value); math.Abs(exponent-math.Round(exponent)) < 1e-9 {
			powers = append(powers, value)
		}
	}
	for len(powers) > maxTicks {
		var fewer []float64
		for i := 0; i < len(powers); i += 2 {
			fewer = append(fewer, powers[i])
		}
		powers = fewer
	}
	return powers
}
