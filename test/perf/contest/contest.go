// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contest runs the test cases of one scheduler_perf configuration as
// schedulers against each other: one after the other in one process, each against an
// API server of its own, and all of them again in every further pair, in the opposite
// order. One run says little: the same workload differs by tens of percent between
// runs on a shared machine. What counts is the ratio of two schedulers in one pair,
// and how far the ratios of the pairs lie apart.
//
// A test case is called Scenario/Scheduler. Those of one scenario have workloads of
// the same names and sizes, with a parameter measuredPods, and the pods that are
// measured carry the label that MeasuredLabel names.
package contest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "k8s.io/component-base/logs/json/register" // a value of scheduler_perf's flags
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// MeasuredLabel is on the pods that a workload measures, with any value. It has no
// domain of its own, so that no plugin of Berth takes notice of it.
const MeasuredLabel = "measured"

var (
	pairs    = flag.Int("pairs", 1, "how often each scheduler runs, in alternating order")
	scenario = flag.String("scenario", "", "run only this scenario (default: all)")
	check    = flag.Bool("check", false, "fail if a ratio is beyond its bound in "+thresholdsFile)
	record   = flag.Bool("record", false, "write what was measured into "+thresholdsFile)
)

// Main is the TestMain of a package with schedulers: scheduler_perf has flags of
// its own, and looks for etcd in PATH.
func Main(m *testing.M) {
	os.Exit(main(m))
}

func main(m *testing.M) int {
	remove, err := provideEtcd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Topic is a configuration of scheduler_perf in the folder of a package, and what
// belongs to it.
type Topic struct {
	// Name is the topic, as scheduler_perf calls it and its results.
	Name string
	// Inspect adds what only this topic measures in a run of a scenario, from the nodes
	// on which its measured pods landed. It may be nil.
	Inspect func(scenario string, nodes []string, into map[string]float64) error
}

// configFile holds the test cases of a topic.
const configFile = "performance-config.yaml"

// Run runs the schedulers of the topic as often as the flag -pairs says, prints what
// was measured and how they compare, and leaves the same as report.json in the
// folder that the flag -data-items-dir names, beside the CPU profile of every run. With -check, a ratio beyond its bound
// fails the benchmark; with -record, the bounds' file learns what was measured.
func Run(b *testing.B, topic Topic) *Report {
	b.Helper()
	report, err := run(b, topic)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Print("\n" + report.text())
	if err := report.settle(); err != nil {
		b.Error(err)
	}
	return report
}

func run(b *testing.B, topic Topic) (*Report, error) {
	b.Helper()
	dir := flag.Lookup("data-items-dir").Value.String()
	if dir == "" {
		dir = b.TempDir()
	}
	if _, has := os.LookupEnv("ARTIFACTS"); !has {
		b.Setenv("ARTIFACTS", b.TempDir()) // where the logs of the servers go
	}
	cases, err := readCases(configFile)
	if err != nil {
		return nil, err
	}
	report := &Report{Topic: topic.Name, Size: perf.PerfSchedulingLabelFilter, Pairs: *pairs, Provenance: provenance()}
	plan := slices.DeleteFunc(cases.ofSize(report.Size), func(e entry) bool { return *scenario != "" && e.Scenario != *scenario })
	if len(plan) == 0 {
		return nil, fmt.Errorf("%s: no workload of scenario %q (\"\" for all) has the label %q", configFile, *scenario, report.Size)
	}
	for pair := range *pairs {
		for _, entry := range inTurn(plan, pair) {
			// scheduler_perf writes its results and has no other way to hand them out.
			results := filepath.Join(dir, fmt.Sprintf("%s-pair-%d", topic.Name, pair), entry.Scenario, entry.Scheduler, entry.Workload)
			if err := flag.Set("data-items-dir", results); err != nil {
				return nil, err
			}
			measured, err := runOne(b, topic, entry, results+".cpu.pprof")
			if err != nil {
				return nil, fmt.Errorf("%s/%s/%s: %w", entry.Scenario, entry.Scheduler, entry.Workload, err)
			}
			average, found, err := readThroughput(results)
			if err != nil {
				return nil, err
			}
			if found {
				measured.Metrics[SampledThroughput] = average
			}
			measured.Pair = pair
			report.Runs = append(report.Runs, *measured)
		}
	}
	report.compare()
	return report, report.write(dir)
}

// runOne runs one workload of one scheduler, and leaves the profile of its CPU time.
func runOne(b *testing.B, topic Topic, entry entry, profile string) (*Measurement, error) {
	b.Helper()
	file := filepath.Join(b.TempDir(), configFile)
	if err := entry.write(file); err != nil {
		return nil, err
	}
	watch := &observer{profile: cpuProfile{file: profile}}
	perf.RunBenchmarkPerfScheduling(b, file, topic.Name, registry.New(), perf.WithNodeUpdateFn(watch.attach))
	if b.Failed() {
		return nil, fmt.Errorf("scheduler_perf failed; the logs are in %s", os.Getenv("ARTIFACTS"))
	}
	measured, nodes, err := watch.result()
	if err != nil {
		return nil, err
	}
	measured.Scenario, measured.Scheduler, measured.Workload = entry.Scenario, entry.Scheduler, entry.Workload
	if topic.Inspect != nil {
		if err := topic.Inspect(entry.Scenario, nodes, measured.Metrics); err != nil {
			return nil, err
		}
	}
	return measured, nil
}
