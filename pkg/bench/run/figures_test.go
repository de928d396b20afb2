// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentiles(t *testing.T) {
	tests := []struct {
		name             string
		values           []float64
		p0, p50, p90, p1 float64
	}{
		{"one", []float64{7}, 7, 7, 7, 7},
		{"two", []float64{20, 10}, 10, 15, 19, 20},
		{"eleven, not in order", []float64{5, 1, 9, 3, 7, 0, 10, 2, 8, 4, 6}, 0, 5, 9, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := tt.values[0]
			got := percentiles(tt.values)
			if len(got) != 101 {
				t.Fatalf("%d numbers, want 101", len(got))
			}
			for percent, want := range map[int]float64{0: tt.p0, 50: tt.p50, 90: tt.p90, 100: tt.p1} {
				if math.Abs(got[percent]-want) > 1e-9 {
					t.Errorf("%v at %d %%, want %v", got[percent], percent, want)
				}
			}
			if tt.values[0] != first {
				t.Error("the values were put into another order")
			}
		})
	}
	if got := percentiles(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestPerSecond(t *testing.T) {
	ms := time.Millisecond
	got := perSecond([]time.Duration{-ms, 0, 999 * ms, 1000 * ms, 3500 * ms})
	if diff := cmp.Diff([]int{3, 1, 0, 1}, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if got := perSecond(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
