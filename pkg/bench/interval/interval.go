// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interval says how far a ratio that was measured a few times can be trusted.
package interval

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a geometric mean, and the ends of its 95 % confidence interval.
type Interval struct {
	Mean, Low, High float64
}

// OfRatios estimates a ratio from at least two positive ones, measured independently
// of each other, by Student's t on their logarithms. Of one ratio it returns a mean
// without an interval, 0 to infinity.
func OfRatios(ratios []float64) Interval {
	logarithms := make([]float64, len(ratios))
	for i, ratio := range ratios {
		logarithms[i] = math.Log(ratio)
	}
	mean, deviation := stat.MeanStdDev(logarithms, nil)
	if len(ratios) < 2 {
		return Interval{Mean: math.Exp(mean), Low: 0, High: math.Inf(1)}
	}
	n := float64(len(ratios))
	half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * stat.StdErr(deviation, n)
	return Interval{Mean: math.Exp(mean), Low: math.Exp(mean - half), High: math.Exp(mean + half)}
}
