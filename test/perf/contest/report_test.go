// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contestOfTwoPairs has Berth at 0.8 and at 1.25 of stock's throughput, and a run of
// stock that was too short for a sampled CPU time.
func contestOfTwoPairs() *Report {
	run := func(pair int, scheduler string, throughput, cpu float64) Measurement {
		m := Measurement{
			Pair: pair, Scenario: "Plain", Scheduler: scheduler, Workload: "5000Nodes", Pods: 100, Seconds: 100 / throughput,
			Metrics: map[string]float64{Throughput: throughput, Batched: 0.5, "on peer's node": 0.25},
		}
		if cpu > 0 {
			m.Metrics[SchedulerCPU] = cpu
		}
		return m
	}
	return &Report{Topic: "basic", Size: "performance", Pairs: 2, Runs: []Measurement{
		run(0, "Berth", 80, 2), run(0, "Stock", 100, 1), run(0, "StockSampling", 400, 1),
		run(1, "StockSampling", 500, 1), run(1, "Stock", 100, 0), run(1, "Berth", 125, 3),
	}}
}

func TestCompare(t *testing.T) {
	report := contestOfTwoPairs()
	report.compare()
	values := map[string][]float64{}
	for _, ratio := range report.Ratios {
		values[ratio.Scheduler+"/"+ratio.Against+" "+ratio.Metric] = ratio.Values
	}
	want := map[string][]float64{
		"Berth/Stock throughput":           {0.8, 1.25},
		"Berth/StockSampling throughput":   {0.2, 0.25},
		"Berth/Stock schedulerCPU":         {2},
		"Berth/StockSampling schedulerCPU": {2, 3},
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("unexpected ratios (-want,+got):\n%s", diff)
	}
	// By hand: 12.706205 standard errors of the logarithms ±0.2231.
	half := 12.706204736174698 * math.Log(1.25)
	got := report.Ratios[0].Interval
	if math.Abs(got.Mean-1) > 1e-9 || math.Abs(got.Low/math.Exp(-half)-1) > 1e-9 || math.Abs(got.High/math.Exp(half)-1) > 1e-9 {
		t.Errorf("got %v, want 1 (%g to %g)", got, math.Exp(-half), math.Exp(half))
	}
}

func TestReportText(t *testing.T) {
	report := contestOfTwoPairs()
	report.compare()
	text := report.text()
	for _, want := range []string{
		"basic, performance, pairs: 2", "scheduler CPU ms/pod", "on peer's node",
		"Berth/Stock           pods/s                 1.000 (0.0", "Berth/Stock           scheduler CPU ms/pod   2.000 (one pair: no interval)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "1 ") && strings.Contains(line, " Stock ") && !strings.Contains(line, " - ") {
			t.Errorf("a value that was not measured is not shown as missing: %s", line)
		}
	}
}

func TestWriteReport(t *testing.T) {
	report := contestOfTwoPairs()
	report.compare()
	dir := filepath.Join(t.TempDir(), "new")
	if err := report.write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := readReport(dir, "basic")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report, read); diff != "" {
		t.Errorf("the report changed on its way (-want,+got):\n%s", diff)
	}
}

func TestReadThroughput(t *testing.T) {
	write := func(t *testing.T, files ...string) string {
		t.Helper()
		dir := t.TempDir()
		for i, content := range files {
			if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const memory = `{"labels": {"Metric": "heap_memory_usage"}, "data": {"Average": 3}}`
	const throughput = `{"labels": {"Metric": "SchedulingThroughput"}, "data": {"Average": 42}}`
	tests := []struct {
		name    string
		files   []string
		want    float64
		wantErr string
	}{
		{name: "samples", files: []string{`{"dataItems": [` + memory + "," + throughput + `]}`}, want: 42},
		{name: "too short for samples", files: []string{`{"dataItems": [` + memory + `]}`}},
		{name: "no file", wantErr: "0 files"},
		{name: "left over from an earlier run", files: []string{"{}", "{}"}, wantErr: "2 files"},
		{name: "no run", files: []string{`{"dataItems": []}`}, wantErr: "no results"},
		{name: "cut off", files: []string{`{"dataItems`}, wantErr: "unexpected end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := readThroughput(write(t, tt.files...))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %v, want an error with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want || found != (tt.want > 0) {
				t.Errorf("got %g, %t, %v, want %g", got, found, err, tt.want)
			}
		})
	}
}
