// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interval says how far a ratio that was measured a few times can be trusted.
package interval

import (
	"math"

	"golang.org/x/perf/benchmath"
)

// Interval is a geometric mean, and the ends of its 95 % confidence interval.
type Interval struct {
	Mean, Low, High float64
}

// OfRatios estimates a ratio from positive ratios that were measured independently of
// each other, by Student's t on their logarithms, as benchstat does for means. One ratio
// has no interval: Low is 0 and High infinity.
func OfRatios(ratios []float64) Interval {
	logarithms := make([]float64, len(ratios))
	for i, ratio := range ratios {
		logarithms[i] = math.Log(ratio)
	}
	summary := benchmath.AssumeNormal.Summary(benchmath.NewSample(logarithms, &benchmath.DefaultThresholds), 0.95)
	if len(ratios) < 2 {
		return Interval{Mean: math.Exp(summary.Center), Low: 0, High: math.Inf(1)}
	}
	return Interval{Mean: math.Exp(summary.Center), Low: math.Exp(summary.Lo), High: math.Exp(summary.Hi)}
}
