// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpu measures with Kubernetes' own scheduler_perf how many pods with GPUs
// a scheduler places in a second: share pods with the shipped profile of Berth,
// and as many pods with whole devices with stock kube-scheduler, which looks at
// all nodes, as that profile does, and once as it is installed. All run one after
// the other in one process, each against an API server of its own. "make
// test-perf" runs it; scheduler_perf needs an etcd in PATH, and -benchtime=1x.
package gpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/test/perf/contest"
)

// The contenders are the names of the test cases in performance-config.yaml.
const (
	berth         = "Berth"
	stock         = "Stock"
	stockSampling = "StockSampling"
)

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) {
	var runs []map[string]float64
	for _, results := range contest.Run(b, "performance-config.yaml", "gpu", registry.New()) {
		run := map[string]float64{}
		for i := range results {
			run[results[i].Contender] = results[i].Metrics[contest.Throughput]
		}
		runs = append(runs, run)
	}
	fmt.Print(report(runs))
}

// report prints one line for each run, and the median of the ratios.
func report(runs []map[string]float64) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%5s %8s %8s %16s %12s %22s   (pods/s, and their ratios)\n",
		"run", "Berth", "stock", "stock, sampling", "Berth/stock", "Berth/stock, sampling")
	var ratios []float64
	for i, run := range runs {
		if run[berth] == 0 || run[stock] == 0 || run[stockSampling] == 0 {
			fmt.Fprintf(&out, "%5d a contender is missing, or placed its pods within a second: %v\n", i, run)
			continue
		}
		ratio := run[berth] / run[stock]
		ratios = append(ratios, ratio)
		fmt.Fprintf(&out, "%5d %8.0f %8.0f %16.0f %12.2f %22.2f\n", i, run[berth], run[stock], run[stockSampling],
			ratio, run[berth]/run[stockSampling])
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		fmt.Fprintf(&out, "Berth/stock at the same percentageOfNodesToScore: median %.2f, from %.2f to %.2f\n\n",
			ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	return out.String()
}

// TestContendersLookAtAsManyNodes keeps the comparison fair: the share of nodes
// that is scored decides the speed of either scheduler.
func TestContendersLookAtAsManyNodes(t *testing.T) {
	ours := percentage(t, "../../../config/berth-scheduler/gpu.yaml")
	theirs := percentage(t, "stock.yaml")
	if ours != theirs {
		t.Errorf("gpu.yaml scores %d%% of the nodes and stock.yaml %d%% (0: the default)", ours, theirs)
	}
}

// percentage returns the effective percentageOfNodesToScore of a file's first
// profile, 0 for the default.
func percentage(t *testing.T, file string) int32 {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	configuration := decoded.(*config.KubeSchedulerConfiguration)
	if own := configuration.Profiles[0].PercentageOfNodesToScore; own != nil {
		return *own
	}
	if shared := configuration.PercentageOfNodesToScore; shared != nil {
		return *shared
	}
	return 0
}

func TestReport(t *testing.T) {
	got := report([]map[string]float64{
		{berth: 80, stock: 100, stockSampling: 400},
		{berth: 90, stock: 100, stockSampling: 400},
		{berth: 50, stock: 100, stockSampling: 400},
		{berth: 50, stock: 100},
	})
	for _, want := range []string{"median 0.80, from 0.50 to 0.90", "0.23", "3 a contender is missing"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
