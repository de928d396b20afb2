// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labelpresence measures with Kubernetes' own scheduler_perf what a rule of
// LabelPresence on all pods costs, beside the same affinity that stock's NodeAffinity
// adds to all pods.
package labelpresence

import (
	"testing"

	"github.com/berth-scheduler/berth/test/perf/contest"
)

var topic = contest.Topic{
	Name: "labelpresence",
	Inspect: func(_ string, nodes []string, into map[string]float64) error {
		return contest.ShareOfNodes(nodes, 2, "on selectable nodes", into)
	},
}

func TestMain(m *testing.M) { contest.Main(m) }

// BenchmarkPerfScheduling runs the workloads and prints how Berth compares.
func BenchmarkPerfScheduling(b *testing.B) { contest.Run(b, topic) }

// Every pod of either scheduler is where the rule allows.
func TestSmall(t *testing.T) {
	report := contest.TestSmall(t, topic)
	for i := range report.Runs {
		run := &report.Runs[i]
		if share := run.Metrics["on selectable nodes"]; share != 1 {
			t.Errorf("%s: %.2f of the pods are on nodes with the label, want all", run.Scheduler, share)
		}
	}
}
