// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
)

// TestCosts: what cannot be told is left out.
func TestCosts(t *testing.T) {
	seen := usage{
		before: &schedulers.Sample{Writes: 10, CPUSeconds: 1, MemoryBytes: 3 * mebibyte},
		after:  &schedulers.Sample{Writes: 35, CPUSeconds: 1.5, MemoryBytes: 2 * mebibyte},
		rested: true, renewed: 5,
	}
	restless, shared := seen, seen
	restless.rested = false
	shared.after = &schedulers.Sample{Shared: true, Writes: 35}
	lost := &renewals{}
	lost.lost.Store(true)
	process := map[string]float64{report.CPUMillisPerPod: 50, report.MemoryMiB: 3}
	tests := []struct {
		name     string
		used     usage
		renewals *renewals
		want     map[string]float64
	}{
		{"all is seen", seen, &renewals{}, map[string]float64{report.WritesPerPod: 2, report.CPUMillisPerPod: 50, report.MemoryMiB: 3}},
		{"nothing is seen", usage{}, nil, map[string]float64{}},
		{"it still writes", restless, nil, process},
		{"renewals of its lease were missed", seen, lost, process},
		{"it shares its process", shared, nil, map[string]float64{report.WritesPerPod: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string]float64{}
			(&round{renewals: tt.renewals}).costs(got, tt.used, 10)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// TestWithoutTail: a reason ends where its sentence does.
func TestWithoutTail(t *testing.T) {
	const why = "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu."
	for _, message := range []string{
		why,
		why + " preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
		why + " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
		why + " no new claims to deallocate",
		why + " still not schedulable, preemption: not eligible due to a terminating pod on the nominated node.",
	} {
		if got := withoutTail(message); got != why {
			t.Errorf("%q of %q, want %q", got, message, why)
		}
	}
}
