// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import "github.com/berth-scheduler/berth/pkg/bench/interval"

// Ratio is how a metric of the topic's own scheduler compares with another's.
type Ratio struct {
	Scenario  string `json:"scenario"`
	Workload  string `json:"workload"`
	Scheduler string `json:"scheduler"`
	Against   string `json:"against"`
	Metric    string `json:"metric"`
	// Values are the ratios of the pairs, in their order.
	Values []float64 `json:"values"`
	interval.Interval
}
