// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
)

// TestGCPercent holds the garbage to a bound that does not grow with the input,
// until Go's own default is reached.
func TestGCPercent(t *testing.T) {
	const mebibyte = 1 << 20
	tests := []struct {
		name  string
		inUse uint64
		want  int
	}{
		{name: "nothing is in use", inUse: 0, want: maxGCPercent},
		{name: "a trace", inUse: 32 * mebibyte, want: maxGCPercent},
		{name: "a cluster", inUse: 128 * mebibyte, want: 200},
		{name: "as much as the bound", inUse: 256 * mebibyte, want: minGCPercent},
		{name: "a large cluster", inUse: 4096 * mebibyte, want: minGCPercent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := gcPercent(tt.inUse); got != tt.want {
				t.Errorf("gcPercent(%d) = %d, want %d", tt.inUse, got, tt.want)
			}
		})
	}
}

// TestGoroutines divides --parallel between runs and within them.
func TestGoroutines(t *testing.T) {
	tests := []struct {
		name                 string
		parallel, contenders int
		seeds                []int64
		wantRuns, wantPerRun int
	}{
		{name: "one run has all", parallel: 8, contenders: 1, seeds: []int64{42}, wantRuns: 1, wantPerRun: 8},
		{name: "as many runs", parallel: 2, contenders: 2, seeds: []int64{42}, wantRuns: 2, wantPerRun: 1},
		{name: "more runs", parallel: 2, contenders: 2, seeds: []int64{1, 2, 3}, wantRuns: 2, wantPerRun: 1},
		{name: "fewer runs", parallel: 8, contenders: 1, seeds: []int64{1, 2, 3}, wantRuns: 3, wantPerRun: 2},
		{name: "one core", parallel: 1, contenders: 1, seeds: []int64{42}, wantRuns: 1, wantPerRun: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &experiment{options: &simulateOptions{parallel: tt.parallel, seeds: tt.seeds}, contenders: make([]prepared, tt.contenders)}
			if runs, perRun := e.goroutines(); runs != tt.wantRuns || perRun != tt.wantPerRun {
				t.Errorf("%d runs at a time with %d goroutines each, want %d with %d", runs, perRun, tt.wantRuns, tt.wantPerRun)
			}
		})
	}
}
