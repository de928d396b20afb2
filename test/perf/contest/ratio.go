// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"fmt"
	"math"

	"github.com/berth-scheduler/berth/pkg/bench/interval"
)

// Ratio is how a metric of the topic's own scheduler compares with another's.
type Ratio struct {
	Scenario  string `json:"scenario"`
	Workload  string `json:"workload"`
	Scheduler string `json:"scheduler"`
	Against   string `json:"against"`
	Metric    string `json:"metric"`
	// Values are the ratios of the pairs, in their order.
	Values []float64 `json:"values"`
	Estimate
}

// Estimate is a geometric mean and the ends of its 95 % confidence interval. One pair
// has no interval: Low is 0 and High is absent.
type Estimate struct {
	Mean float64  `json:"mean"`
	Low  float64  `json:"low"`
	High *float64 `json:"high,omitempty"`
}

// estimate takes at least one positive value.
func estimate(values []float64) Estimate {
	of := interval.OfRatios(values)
	if math.IsInf(of.High, 1) { // which neither JSON nor YAML can say
		return Estimate{Mean: of.Mean}
	}
	return Estimate{Mean: of.Mean, Low: of.Low, High: &of.High}
}

// String is the mean with its interval.
func (e Estimate) String() string {
	if e.High == nil {
		return fmt.Sprintf("%.3f (one pair: no interval)", e.Mean)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Mean, e.Low, *e.High)
}
