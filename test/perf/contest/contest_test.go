// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
)

func TestResults(t *testing.T) {
	item := func(name, metric string, average float64) perf.DataItem {
		return perf.DataItem{Labels: map[string]string{"Name": name, "Metric": metric}, Data: map[string]float64{"Average": average}}
	}
	items := &perf.DataItems{DataItems: []perf.DataItem{
		item("BenchmarkPerfScheduling/Berth#01/5000Nodes/namespace-2", Throughput, 80),
		item("BenchmarkPerfScheduling/Berth#01/5000Nodes/namespace-2", "duration", 3),
		item("BenchmarkPerfScheduling/Stock/5000Nodes/namespace-2", Throughput, 100),
		{Labels: map[string]string{"Name": "BenchmarkPerfScheduling/Stock/5000Nodes/namespace-2"}, Data: map[string]float64{"Perc50": 1}},
		item("BenchmarkPerfScheduling", Throughput, 1),
	}}
	got := results(items)
	want := []Result{
		{Contender: "Berth", Workload: "5000Nodes", Metrics: map[string]float64{Throughput: 80, "duration": 3}},
		{Contender: "Stock", Workload: "5000Nodes", Metrics: map[string]float64{Throughput: 100}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected results (-want,+got):\n%s", diff)
	}
	if found := Find(got, "Stock", "5000Nodes"); found == nil || found.Metrics[Throughput] != 100 {
		t.Errorf("found %v of Stock", found)
	}
	if found := Find(got, "Stock", "500Nodes"); found != nil {
		t.Errorf("found %v, want nothing", found)
	}
}

func TestReadNothing(t *testing.T) {
	if _, err := read(t.TempDir()); err == nil {
		t.Error("an empty folder was read as results")
	}
}
