// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"time"
)

// percentiles returns the values at 0, 1, …, 100 percent, each between its two
// neighbours in proportion; nil without values.
func percentiles(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	at := make([]float64, 101)
	for percent := range at {
		place := float64(percent) / 100 * float64(len(sorted)-1)
		below := int(place)
		above := min(below+1, len(sorted)-1)
		part := place - float64(below)
		at[percent] = sorted[below] + (sorted[above]-sorted[below])*part
	}
	return at
}

// perSecond counts the times that lie in each second from the start. The list ends
// with the last of them.
func perSecond(times []time.Duration) []int {
	var seconds []int
	for _, at := range times {
		second := int(max(at, 0) / time.Second)
		for len(seconds) <= second {
			seconds = append(seconds, 0)
		}
		seconds[second]++
	}
	return seconds
}

// milliseconds is a duration as a number.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
