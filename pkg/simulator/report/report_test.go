// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// testReport has one profile with two runs, and one with a single run whose pods
// are listed.
func testReport(t *testing.T) *Report {
	t.Helper()
	nodes := testNodes()
	events := testEvents(t, nodes)
	first := record(t, nodes, wholeDevice(t), events).Run(42)
	second := record(t, nodes, wholeDevice(t), events[:3]).Run(43)
	r := &Report{
		FormatVersion: FormatVersion, Berth: "v0.0.0", Kubernetes: "v1.36.3",
		Inputs:   []File{{Path: "nodes.csv", SHA256: "0123"}, {Path: "pods.csv", SHA256: "4567"}},
		Cluster:  ClusterOf(nodes, nil, &keys),
		Workload: Workload{Pods: 4, TargetLoad: 1.3, Seeds: []int64{42, 43}},
		Profiles: []Profile{
			{Name: "fgd", File: File{Path: "config/fgd.yaml", SHA256: "89ab"}, SchedulerName: "berth-scheduler", ExpectedWorkload: WorkloadFromOracle},
			{Name: "gpu", File: File{Path: "config/gpu.yaml", SHA256: "cdef"}, SchedulerName: "berth-scheduler", ExpectedWorkload: WorkloadFromProfile},
		},
		Notes: []string{`pods.csv:3:1: gpu_spec of pod c: no node has the model "V100"; the nodes have A10, T4`},
	}
	r.Profiles[0].SetRuns([]Run{first, second}, true)
	r.Profiles[1].SetRuns([]Run{first}, true)
	return r
}

// TestGolden pins every form of a report. `go test -update` writes them anew.
func TestGolden(t *testing.T) {
	r := testReport(t)
	tests := []struct {
		file  string
		write func(io.Writer) error
	}{
		{file: "report.txt", write: r.WriteTable},
		{file: "report.json", write: r.WriteJSON},
		{file: "summary.csv", write: r.WriteSummaryCSV},
		{file: "series.csv", write: r.WriteSeriesCSV},
		{file: "placements.csv", write: r.WritePlacementsCSV},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			var got bytes.Buffer
			if err := tt.write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", tt.file)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want,+got):\n%s", path, diff)
			}
		})
	}
}

// TestPlots draws every diagram twice: it must be one, and the same.
func TestPlots(t *testing.T) {
	r := testReport(t)
	if !r.HasPlots() {
		t.Fatal("nothing to draw")
	}
	for _, p := range Plots() {
		for _, format := range []string{"svg", "png"} {
			t.Run(p.Name+"."+format, func(t *testing.T) {
				var first, second bytes.Buffer
				for _, w := range []*bytes.Buffer{&first, &second} {
					if err := r.WritePlot(w, p, format); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(first.Bytes(), second.Bytes()) {
					t.Error("two drawings differ")
				}
				if format == "png" {
					picture, err := png.Decode(&first)
					if err != nil {
						t.Fatal(err)
					}
					if size := picture.Bounds().Size(); size.X < 500 || size.Y < 300 {
						t.Errorf("the picture has %v pixels", size)
					}
					return
				}
				for _, want := range []string{"<svg", ">fgd</text>", ">gpu</text>", p.title} {
					if !strings.Contains(first.String(), want) {
						t.Errorf("no %q in the drawing", want)
					}
				}
			})
		}
	}
	// Pods that ask for little come to no end.
	short := &Report{Profiles: []Profile{{Name: "short", Series: &Series{AllocatedPercent: Curve{Mean: []float64{0, 1, 2}}}}}}
	for _, p := range Plots()[:2] {
		if err := short.WritePlot(io.Discard, p, "svg"); err != nil {
			t.Errorf("%s of a short series: %v", p.Name, err)
		}
	}
	if err := r.WritePlot(io.Discard, Plots()[0], "bmp"); err == nil {
		t.Error("an unknown format was accepted")
	}
	if (&Report{Profiles: []Profile{{}}}).HasPlots() {
		t.Error("a report without devices has plots")
	}
}

// TestLegendHidesNoCurve: the name of no profile stands within the axes, however many
// there are.
func TestLegendHidesNoCurve(t *testing.T) {
	r := testReport(t)
	one := r.Profiles[0]
	for i := range 8 {
		one.Name = fmt.Sprintf("profile-%d", i)
		r.Profiles = append(r.Profiles, one)
	}
	var out bytes.Buffer
	if err := r.WritePlot(&out, Plots()[0], "svg"); err != nil {
		t.Fatal(err)
	}
	// gonum writes a text with its place, y upwards from the bottom negated.
	place := func(text string) float64 {
		match := regexp.MustCompile(`<text[^>]* y="(-?[0-9.]+)"[^>]*>` + regexp.QuoteMeta(text) + `</text>`).FindStringSubmatch(out.String())
		if match == nil {
			t.Fatalf("no %q in the drawing", text)
		}
		y, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	axis := place("GPUs asked for by all pods that have arrived, %")
	for i := range r.Profiles {
		if y := place(r.Profiles[i].Name); y <= axis {
			t.Errorf("the name %s stands at %v, and the label of the axis at %v: above it", r.Profiles[i].Name, y, axis)
		}
	}
}

func TestStatistics(t *testing.T) {
	runs := []Run{
		{Metrics: map[string]float64{"podsFailed": 2, "allocatedPercentAt100": 95}},
		{Metrics: map[string]float64{"podsFailed": 4}},
		{Metrics: map[string]float64{"podsFailed": 9, "allocatedPercentAt100": 96}},
	}
	var p Profile
	p.SetRuns(runs, true)
	want := map[string]Statistic{
		"podsFailed":            {Mean: 5, StandardDeviation: 3.6056, Runs: 3},
		"allocatedPercentAt100": {Mean: 95.5, StandardDeviation: 0.7071, Runs: 2},
	}
	if diff := cmp.Diff(want, p.Metrics); diff != "" {
		t.Errorf("metrics (-want,+got):\n%s", diff)
	}
	if p.Series != nil || p.Placements != nil {
		t.Errorf("series %v and placements %v, want none", p.Series, p.Placements)
	}
}

func TestJoined(t *testing.T) {
	for want, seeds := range map[string][]int64{"42..44": {42, 43, 44}, "7": {7}, "1,3": {1, 3}, "3,2": {3, 2}} {
		if got := joined(seeds); got != want {
			t.Errorf("joined(%v) = %q, want %q", seeds, got, want)
		}
	}
}
