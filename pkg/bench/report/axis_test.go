// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// labels returns what stands at the ticks.
func labels(a *axis) []string {
	var labels []string
	for _, tick := range a.Ticks {
		labels = append(labels, tick.Label)
	}
	return labels
}

func TestAxisLabels(t *testing.T) {
	tests := []struct {
		name string
		axis *axis
		want []string
	}{
		{name: "nothing", axis: linearAxis(0, 0, 100), want: []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{name: "next to nothing", axis: linearAxis(math.SmallestNonzeroFloat64, 0, 100), want: []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{name: "tenths", axis: linearAxis(0.3, 0, 100), want: []string{"0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}},
		{name: "percent", axis: linearAxis(100, 0, 100), want: []string{"0", "20", "40", "60", "80", "100"}},
		{name: "pods", axis: linearAxis(441, 0, 100), want: []string{"0", "100", "200", "300", "400", "500"}},
		{name: "one latency", axis: logAxis(7, 7, 0, 100), want: []string{"1", "2", "5", "10"}},
		{name: "a round one", axis: logAxis(10, 10, 0, 100), want: []string{"10", "20", "50", "100"}},
		{name: "milliseconds", axis: logAxis(2.1, 61, 0, 100), want: []string{"1", "2", "5", "10", "20", "50", "100"}},
		{name: "to minutes", axis: logAxis(2.1, 61000, 0, 100), want: []string{"1", "10", "100", "1000", "10000", "100000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, labels(tt.axis)); diff != "" {
				t.Errorf("labels (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestAxisHoldsItsValues tries ranges of all sizes that Validate lets through.
func TestAxisHoldsItsValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draw := func() float64 {
		return smallest * math.Pow(largest/smallest, random.Float64())
	}
	for range 20000 {
		low, high := draw(), draw()
		low, high = min(low, high), max(low, high)
		for name, a := range map[string]*axis{"linear": linearAxis(high, 50, 400), "logarithmic": logAxis(low, high, 50, 400)} {
			if !(a.low <= low && high <= a.high) {
				t.Fatalf("%s axis from %g to %g for %g to %g", name, a.low, a.high, low, high)
			}
			if n := len(a.Ticks); n < 2 || n > maxTicks+1 {
				t.Fatalf("%s axis for %g to %g has %d ticks: %v", name, low, high, n, a.Ticks)
			}
			last := 49.0
			for _, tick := range a.Ticks {
				if !(tick.At > last && tick.At <= 400) {
					t.Fatalf("%s axis for %g to %g: ticks %v", name, low, high, a.Ticks)
				}
				last = tick.At
			}
			if at := []float64{a.at(low), a.at(high)}; !(50 <= at[0] && at[0] <= at[1] && at[1] <= 400) {
				t.Fatalf("%s axis for %g to %g puts them at %v", name, low, high, at)
			}
		}
	}
}
