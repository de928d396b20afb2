// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/bench/report"
)

func TestInvalid(t *testing.T) {
	good := observation{
		throughput: 399, qps: 500, requests: 1000, delayed: 10, schedulerRequests: 1000, schedulerDelayed: 10,
		bound: 900, planned: 1000, duration: time.Minute, lag: maxLag, lateness: time.Hour,
	}
	tests := []struct {
		name   string
		change func(*observation)
		want   string // empty if the round counts
	}{
		{"a round that counts", func(*observation) {}, ""},
		{"pods are left that were refused", func(o *observation) { o.bound = 1 }, ""},
		{"nothing was bound", func(o *observation) { o.bound, o.throughput = 0, 0 }, "no pod was bound"},
		{"at the limit", func(o *observation) { o.throughput = 400 }, "400 pods/s is not below 80 % of the clients' limit of 500 requests/s"},
		{"the benchmark is held up", func(o *observation) { o.delayed = 11 }, "the benchmark's client was throttled: its limit held up 11 of 1000 requests"},
		{"the scheduler is held up", func(o *observation) { o.schedulerDelayed = 11 }, "the scheduler's client was throttled"},
		{"one slow moment in a small round", func(o *observation) {
			o.requests, o.delayed, o.schedulerRequests, o.schedulerDelayed = 20, 2, 60, 2
		}, ""},
		{"a small round is held up", func(o *observation) { o.requests, o.delayed = 20, 3 }, "the benchmark's client was throttled: its limit held up 3 of 20 requests"},
		{"nothing of the scheduler is seen", func(o *observation) { o.schedulerRequests, o.schedulerDelayed = 0, 0 }, ""},
		{"not settled", func(o *observation) { o.timeout, o.left = time.Minute, 7 }, "it had not finished after 1m0s: 7 of 1000 pods were neither bound nor rejected"},
		{"late", func(o *observation) { o.paced = true }, "a pod was created 1h0m0s later than planned"},
		{"not late", func(o *observation) { o.paced, o.lateness = true, maxLateness }, ""},
		{"the watch is slow, and was lost", func(o *observation) { o.lag, o.endLag, o.losses = time.Minute, time.Minute, 1 }, ""},
		{"a right is missing", func(o *observation) { o.rbacErrors = []string{"pods is forbidden"} }, "the scheduler lacks a permission: pods is forbidden"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			got := o.invalid()
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("%q, want nothing", got)
			case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)):
				t.Errorf("%q, want one that begins with %q", got, tt.want)
			}
		})
	}
}

// What the watch tells too late is not told, and nothing else is left out.
func TestInexact(t *testing.T) {
	latencies := []string{report.LatencyP50, report.LatencyP90, report.LatencyP99}
	all := append([]string{report.Throughput}, latencies...)
	tests := []struct {
		name string
		o    observation
		keys []string
		why  string
	}{
		{"in time", observation{lag: maxLag, endLag: maxLag, duration: time.Second}, nil, ""},
		{"slow, for a long round", observation{lag: 4 * time.Second, endLag: 4 * time.Second, duration: time.Hour}, nil, ""},
		{"slow", observation{lag: 4 * time.Second, duration: time.Minute}, latencies, "the watch was 4s behind"},
		{"slow at the end", observation{endLag: 4 * time.Second, duration: time.Minute}, all[:1], "the watch was 4s behind at the end"},
		{"lost", observation{losses: 2, duration: time.Minute}, all, "the watch was lost 2 times"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := map[string]string{}
			for _, key := range tt.keys {
				want[key] = tt.why
			}
			if diff := cmp.Diff(want, tt.o.inexact()); diff != "" {
				t.Errorf("Unexpected metrics (-want,+got):\n%s", diff)
			}
		})
	}
}
