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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // a value of scheduler_perf's flags
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// The contenders are the names of the test cases in performance-config.yaml.
const (
	berth         = "Berth"
	stock         = "Stock"
	stockSampling = "StockSampling"
)

// pairs is how often all contenders run, in turn. One run says little: the same
// workload differs by tens of percent between runs on a shared machine.
var pairs = flag.Int("pairs", 1, "how often the contenders run, in turn")

func TestMain(m *testing.M) {
	for _, plugin := range registry.Plugins() {
		perf.PluginNames = append(perf.PluginNames, plugin.Name)
	}
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) {
	dir := flag.Lookup("data-items-dir").Value.String()
	if dir == "" {
		dir = b.TempDir()
	}
	var runs []map[string]float64
	for i := range *pairs {
		// scheduler_perf writes its results and has no other way to hand them out.
		results := filepath.Join(dir, fmt.Sprintf("pair-%d", i))
		if err := flag.Set("data-items-dir", results); err != nil {
			b.Fatal(err)
		}
		perf.RunBenchmarkPerfScheduling(b, "performance-config.yaml", "gpu", registry.New())
		run, err := readResults(results)
		if err != nil {
			b.Fatal(err)
		}
		runs = append(runs, run)
	}
	fmt.Print(report(runs))
}

// readResults returns the throughput of each contender, the mean of the pods placed
// in each second, from what scheduler_perf wrote last into dir.
func readResults(dir string) (map[string]float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New(dir + ": scheduler_perf left no results")
	}
	// The names end in the time.
	content, err := os.ReadFile(slices.Max(files))
	if err != nil {
		return nil, err
	}
	var items perf.DataItems
	if err := json.Unmarshal(content, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", slices.Max(files), err)
	}
	results := map[string]float64{}
	for _, item := range items.DataItems {
		// BenchmarkPerfScheduling/Berth#01/5000Nodes/namespace-2
		parts := strings.Split(item.Labels["Name"], "/")
		if len(parts) < 2 || item.Labels["Metric"] != "SchedulingThroughput" {
			continue
		}
		contender, _, _ := strings.Cut(parts[1], "#")
		results[contender] = item.Data["Average"]
	}
	return results, nil
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
