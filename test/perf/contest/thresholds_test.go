// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/bench/interval"
)

func aBound(change func(*Bound)) *Thresholds {
	bound := Bound{
		Scenario: "Plain", Workload: "5000Nodes", Metric: Throughput, Scheduler: "Berth", Against: "Stock",
		AtLeast: 0.97, Why: "because",
	}
	if change != nil {
		change(&bound)
	}
	return &Thresholds{Bounds: []Bound{bound}}
}

func TestCheck(t *testing.T) {
	report := contestOfTwoPairs()
	report.compare()
	tests := []struct {
		name   string
		change func(*Bound)
		only   string
		want   []string // of the error; none if the bound holds
	}{
		{name: "at least", change: nil},
		{name: "below", change: func(b *Bound) { b.AtLeast = 1.01 }, want: []string{
			"Plain 5000Nodes: throughput of Berth over that of Stock: at least 1.01", "measured 1.000 (0.0", "[0.800 1.250]",
		}},
		{name: "at most", change: func(b *Bound) { b.Metric, b.AtLeast, b.AtMost = SchedulerCPU, 0, 2.1 }},
		{
			name: "above, and it was better once",
			change: func(b *Bound) {
				b.Metric, b.AtLeast, b.AtMost = SchedulerCPU, 0, 1.05
				b.Measured = &Record{Interval: interval.Interval{Mean: 1.02}, Provenance: Provenance{Date: "2026-11-21", Commit: "abc"}}
			},
			want: []string{"at most 1.05", "measured 2.000", "recorded before: 1.020 (one pair: no interval) on 2026-11-21 at abc"},
		},
		{name: "not measured", change: func(b *Bound) { b.Metric = Algorithm }, want: []string{"algorithm of Berth", "was not measured"}},
		{name: "another scenario was asked for", change: func(b *Bound) { b.AtLeast = 1.01 }, only: "Batching"},
		{name: "this one was", change: func(b *Bound) { b.AtLeast = 1.01 }, only: "Plain", want: []string{"at least 1.01"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := aBound(tt.change).check(report.Ratios, tt.only)
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	cases, err := casesOf(t, someCases)
	if err != nil {
		t.Fatal(err)
	}
	if err := aBound(nil).validate(cases); err != nil {
		t.Errorf("a good bound: %v", err)
	}
	for want, change := range map[string]func(*Bound){
		"no such workload":                    func(b *Bound) { b.Workload = "5001Nodes" },
		"no such workload of both":            func(b *Bound) { b.Against = "Random" },
		"bounds[0].metric":                    func(b *Bound) { b.Metric = Batched },
		"one of atLeast and atMost":           func(b *Bound) { b.AtMost = 2 },
		"one of atLeast and atMost must be":   func(b *Bound) { b.AtLeast = 0 },
		"must say where the bound comes from": func(b *Bound) { b.Why = "" },
	} {
		if err := aBound(change).validate(cases); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// What is recorded can be read again, and changes no bound.
func TestRecord(t *testing.T) {
	t.Chdir(t.TempDir())
	report := contestOfTwoPairs()
	report.compare()
	report.Provenance = Provenance{Date: "2026-11-21", Commit: "abc", Machine: "two CPUs"}
	thresholds := aBound(nil)
	thresholds.record(report)
	if err := thresholds.write(); err != nil {
		t.Fatal(err)
	}
	read, err := readThresholds()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(thresholds, read); diff != "" {
		t.Errorf("the file says something else (-want,+got):\n%s", diff)
	}
	measured := read.Bounds[0].Measured
	if measured == nil || measured.Mean != 1 || measured.Machine != "two CPUs" || len(measured.Pairs) != 2 {
		t.Errorf("recorded %+v", measured)
	}
	if err := os.WriteFile(thresholdsFile, []byte("bounds:\n- scenari: Plain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readThresholds(); err == nil || !strings.Contains(err.Error(), "scenari") {
		t.Errorf("got %v of a misspelled field", err)
	}
}
