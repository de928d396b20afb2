// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contest runs the test cases of one scheduler_perf configuration as
// contenders against each other: one after the other in one process, each against an
// API server of its own, and all of them again in every further pair. One run says
// little: the same workload differs by tens of percent between runs on a shared
// machine.
package contest

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
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// Throughput is the metric of the pods placed in each second.
const Throughput = "SchedulingThroughput"

var pairs = flag.Int("pairs", 1, "how often the contenders run, in turn")

// Result is what scheduler_perf measured of one workload of one contender.
type Result struct {
	// Contender is the name of the test case, Workload of its workload.
	Contender, Workload string
	// Metrics are the means, by the name of the metric: pods per second for
	// Throughput, milliseconds for histograms of seconds.
	Metrics map[string]float64
}

// Main is the TestMain of a package with contenders: scheduler_perf has flags of
// its own and wants to know whose plugins to measure.
func Main(m *testing.M) {
	for _, plugin := range registry.Plugins() {
		perf.PluginNames = append(perf.PluginNames, plugin.Name)
	}
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Run runs the contenders of a configuration file as often as the flag -pairs says,
// and returns for each pair what was measured, in the order of the runs.
func Run(b *testing.B, config, topic string, plugins runtime.Registry) [][]Result {
	b.Helper()
	dir := flag.Lookup("data-items-dir").Value.String()
	if dir == "" {
		dir = b.TempDir()
	}
	var runs [][]Result
	for i := range *pairs {
		// scheduler_perf writes its results and has no other way to hand them out.
		results := filepath.Join(dir, fmt.Sprintf("%s-pair-%d", topic, i))
		if err := flag.Set("data-items-dir", results); err != nil {
			b.Fatal(err)
		}
		perf.RunBenchmarkPerfScheduling(b, config, topic, plugins)
		run, err := read(results)
		if err != nil {
			b.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// read returns what scheduler_perf wrote last into dir.
func read(dir string) ([]Result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New(dir + ": scheduler_perf left no results")
	}
	file := slices.Max(files) // the names end in the time
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var items perf.DataItems
	if err := json.Unmarshal(content, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return results(&items), nil
}

// results gathers the items of each workload.
func results(items *perf.DataItems) []Result {
	var gathered []Result
	for _, item := range items.DataItems {
		// BenchmarkPerfScheduling/Berth#01/5000Nodes/namespace-2
		parts := strings.Split(item.Labels["Name"], "/")
		average, has := item.Data["Average"]
		if len(parts) < 3 || !has {
			continue
		}
		contender, _, _ := strings.Cut(parts[1], "#")
		workload, _, _ := strings.Cut(parts[2], "#")
		i := slices.IndexFunc(gathered, func(r Result) bool { return r.Contender == contender && r.Workload == workload })
		if i < 0 {
			i = len(gathered)
			gathered = append(gathered, Result{Contender: contender, Workload: workload, Metrics: map[string]float64{}})
		}
		gathered[i].Metrics[item.Labels["Metric"]] = average
	}
	return gathered
}

// Find returns what one run measured of a contender's workload, or nil.
func Find(run []Result, contender, workload string) *Result {
	for i := range run {
		if run[i].Contender == contender && run[i].Workload == workload {
			return &run[i]
		}
	}
	return nil
}
