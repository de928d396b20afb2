// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestOpenb is the control of the whole harness: Best-fit on the paper's default
// list, beside the curves that were published for the same seed. As long as
// everything fits they are the same to the last digit, since the same pods come in
// the same order; later ties make a difference.
func TestOpenb(t *testing.T) {
	framework.OnlyLong(t) // places 11,000 pods on 1,200 nodes
	folder := datasets.Path("openb")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the openb trace is not at hand: %v", err)
	}
	r := simulate(t, "", "-f", filepath.Join(folder, "openb_node_list_gpu_node.csv"), "-f", filepath.Join(folder, "openb_pod_list_default.csv"),
		"--config", "config/simulator/bestfit.yaml", "--seeds", "42")
	if got := r.Profiles[0].Runs[0].Metrics["pods"]; got != 10_866 {
		t.Errorf("%v pods arrived, want 10866", got)
	}
	series := r.Profiles[0].Series
	tests := []struct {
		name, file    string
		curve         report.Curve
		exactTo       int     // percent of load
		tolerance     float64 // up to there
		lateTolerance float64
	}{
		{name: "allocated", file: "analysis_allo_discrete.csv", curve: series.AllocatedPercent, exactTo: 85, tolerance: 0.0051, lateTolerance: 0.5},
		{name: "fragmented", file: "analysis_frag_discrete.csv", curve: series.FragmentedPercent, tolerance: 0.1, lateTolerance: 0.4},
		{name: "ratio", file: "analysis_frag_ratio_discrete.csv", curve: series.FragmentationRatioPercent, tolerance: 0.1, lateTolerance: 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			published := publishedCurve(t, filepath.Join(folder, "expected", tt.file))
			if len(tt.curve.Mean) != len(published) {
				t.Fatalf("%d points, published %d", len(tt.curve.Mean), len(published))
			}
			for x, got := range tt.curve.Mean {
				tolerance := tt.tolerance
				if x > tt.exactTo {
					tolerance = tt.lateTolerance
				}
				if math.Abs(got-published[x]) > tolerance {
					t.Errorf("at %d %% load: %.4f, published %.4f", x, got, published[x])
				}
			}
		})
	}
}

// publishedCurve reads the paper's curve of Best-fit on the default list, seed 42.
func publishedCurve(t *testing.T, path string) []float64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	first := slices.Index(rows[0], "0")
	for _, row := range rows[1:] {
		if row[0] != "openb_pod_list_default" || row[1] != "05-BestFit" || row[3] != "42" {
			continue
		}
		var curve []float64
		for _, field := range row[first:] {
			value, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			curve = append(curve, value)
		}
		return curve
	}
	t.Fatalf("no such run in %s", path)
	return nil
}
