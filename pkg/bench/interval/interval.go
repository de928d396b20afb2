// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interval says how far a ratio that was measured a few times can be trusted.
package interval

import (
	"fmt"
	"math"

	"golang.org/x/perf/benchmath"
)

// Interval is a geometric mean, and the ends of its 95 % confidence interval. One ratio has
// no interval: High is 0.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high,omitempty"`
}

// OfRatios estimates a ratio from positive ratios that were measured independently of
// each other, by Student's t on their logarithms, as benchstat does for means.
func OfRatios(ratios []float64) Interval {
	logarithms := make([]float64, len(ratios))
	for i, ratio := range ratios {
		logarithms[i] = math.Log(ratio)
	}
	summary := benchmath.AssumeNormal.Summary(benchmath.NewSample(logarithms, &benchmath.DefaultThresholds), 0.95)
	if len(ratios) < 2 {
		return Interval{Mean: math.Exp(summary.Center)}
	}
	return Interval{Mean: math.Exp(summary.Center), Low: math.Exp(summary.Lo), High: math.Exp(summary.Hi)}
}

// String is the mean with its interval.
func (i Interval) String() string {
	if i.High == 0 {
		return fmt.Sprintf("%.3f (one pair: no interval)", i.Mean)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Mean, i.Low, i.High)
}
