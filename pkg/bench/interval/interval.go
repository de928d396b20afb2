// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interval says how far a ratio that was measured a few times can be trusted.
package interval

import "math"

// Interval is a geometric mean, and the ends of its 95 % confidence interval.
type Interval struct {
	Mean, Low, High float64
}

// OfRatios estimates a ratio from at least two positive ones, measured independently
// of each other, by Student's t on their logarithms. Of one ratio it returns a mean
// without an interval, 0 to infinity.
func OfRatios(ratios []float64) Interval {
	n := float64(len(ratios))
	var mean float64
	for _, ratio := range ratios {
		mean += math.Log(ratio) / n
	}
	if len(ratios) < 2 {
		return Interval{Mean: math.Exp(mean), Low: 0, High: math.Inf(1)}
	}
	var squares float64
	for _, ratio := range ratios {
		squares += (math.Log(ratio) - mean) * (math.Log(ratio) - mean)
	}
	half := quantile975(len(ratios)-1) * math.Sqrt(squares/(n-1)/n)
	return Interval{Mean: math.Exp(mean), Low: math.Exp(mean - half), High: math.Exp(mean + half)}
}

// studentT are the 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom.
var studentT = []float64{
	12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
	2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
}

// normal975 is the 97.5 % quantile of the normal distribution, which Student's t
// comes to.
const normal975 = 1.959964

// quantile975 returns the 97.5 % quantile of Student's t: the half width of a 95 %
// confidence interval in standard errors. The degrees of freedom are at least 1;
// beyond the table it is the expansion of Abramowitz and Stegun 26.7.5, which is
// right to four decimals there.
func quantile975(degrees int) float64 {
	if degrees <= len(studentT) {
		return studentT[degrees-1]
	}
	n, z := float64(degrees), normal975
	return z + (z*z*z+z)/(4*n) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*n*n)
}
