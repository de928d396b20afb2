// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"os"
	"os/exec"
	"testing"
)

// TestSmall runs the small workloads once, as the benchmark that they are, in a
// process of this test binary, and looks at the report: each scheduler placed all
// its pods, each metric is there, and each ratio. How large they are is not looked
// at. It also finds bounds that nothing measures. Topics other than basic run only with
// BERTH_LONG=1, as make test-long has it.
func TestSmall(t *testing.T, topic Topic) *Report {
	t.Helper()
	cases, err := readCases(configFile)
	if err != nil {
		t.Fatal(err)
	}
	thresholds, err := readThresholds()
	if err != nil {
		t.Fatal(err)
	}
	if err := thresholds.validate(cases); err != nil {
		t.Errorf("%s: %v", thresholdsFile, err)
	}
	if testing.Short() {
		t.Skip("-short: starts servers")
	}
	if topic.Name != "basic" && os.Getenv("BERTH_LONG") != "1" {
		t.Skip("takes what basic takes once more: only with BERTH_LONG=1")
	}
	report := runSmall(t, topic)
	t.Log("\n" + report.text())
	plan := cases.ofSize("small")
	if len(report.Runs) != len(plan) {
		t.Fatalf("%d runs of %d small workloads", len(report.Runs), len(plan))
	}
	for i := range plan {
		lookAt(t, &plan[i], &report.Runs[i])
	}
	if len(report.Ratios) == 0 {
		t.Error("no schedulers were compared")
	}
	return report
}

// lookAt finds what is missing of a run.
func lookAt(t *testing.T, want *entry, got *Measurement) {
	t.Helper()
	if got.Scenario != want.Scenario || got.Workload != want.Workload || got.Scheduler != want.Scheduler {
		t.Errorf("ran %s/%s/%s, want %s/%s/%s", got.Scenario, got.Scheduler, got.Workload, want.Scenario, want.Scheduler, want.Workload)
	}
	workload, _ := want.testCase["workloads"].([]any)[0].(map[string]any)
	params, _ := workload["params"].(map[string]any)
	if pods, _ := params["measuredPods"].(float64); got.Pods != int(pods) || pods == 0 {
		t.Errorf("%s/%s/%s: %d measured pods were placed, want %g", got.Scenario, got.Scheduler, got.Workload, got.Pods, pods)
	}
	for _, metric := range []string{Throughput, Algorithm, ProcessCPU} {
		if got.Metrics[metric] <= 0 {
			t.Errorf("%s/%s/%s: nothing was measured of %s", got.Scenario, got.Scheduler, got.Workload, metric)
		}
	}
}

// runSmall runs the small workloads in a process of this test binary.
func runSmall(t *testing.T, topic Topic) *Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	benchmark := exec.CommandContext(t.Context(), self, "-test.run", "^$", "-test.bench", ".", "-test.benchtime", "1x",
		"-perf-scheduling-label-filter", "small", "-data-items-dir", dir)
	benchmark.Env = append(os.Environ(), "ARTIFACTS="+t.TempDir())
	output, err := benchmark.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", benchmark.Args, err, output)
	}
	report, err := readReport(dir, topic.Name)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return report
}
