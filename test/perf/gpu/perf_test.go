// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpu measures with Kubernetes' own scheduler_perf what it costs to place pods
// with GPUs: shares, whole devices, shares among plain pods, and shares while others
// evict, beside stock kube-scheduler with whole devices. performance-config.yaml says
// what each scenario is.
package gpu

import (
	"os"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/berth-scheduler/berth/test/perf/contest"
)

var topic = contest.Topic{Name: "gpu"}

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) { contest.Run(b, topic) }

// In Churn, and nowhere else, pods are evicted.
func TestSmall(t *testing.T) {
	report := contest.TestSmall(t, topic)
	for i := range report.Runs {
		run := &report.Runs[i]
		if evicted := run.Metrics[contest.Victims]; (evicted > 0) != (run.Scenario == "Churn") {
			t.Errorf("%s/%s: %.0f pods were evicted", run.Scenario, run.Scheduler, evicted)
		}
	}
}

// TestSamplingIsTheDefault keeps the comparison fair: the share of nodes that is scored
// decides the speed of either scheduler, and stock's profile is the default one.
func TestSamplingIsTheDefault(t *testing.T) {
	if ours := percentage(t, "../../../config/berth-scheduler/gpu.yaml"); ours != 0 {
		t.Errorf("gpu.yaml scores %d%% of the nodes", ours)
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
