// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// readOpenb reads the cluster and a list of pods, and skips the test where the
// trace is not at hand.
func readOpenb(tb testing.TB, list string) *trace.Trace {
	tb.Helper()
	tr := &trace.Trace{}
	for _, name := range []string{"openb_node_list_gpu_node.csv", "openb_pod_list_" + list + ".csv"} {
		content, err := os.ReadFile(filepath.Join(datasets.Path("openb"), name))
		if err != nil {
			tb.Skipf("the openb trace is not at hand: %v", err)
		}
		if err := tr.Read(name, content); err != nil {
			tb.Fatal(err)
		}
	}
	return tr
}

// replayOpenb runs the paper's experiment with one seed up to the load, and
// returns the mean allocation in percent while the arrived load rounds to 100 %.
func replayOpenb(tb testing.TB, tr *trace.Trace, profile string, load float64, seed int64) float64 {
	tb.Helper()
	config := loadProfile(tb, profile)
	objects := &cluster.Cluster{}
	for i := range tr.Nodes {
		if err := objects.Add(tr.Nodes[i].Object()); err != nil {
			tb.Fatal(err)
		}
	}
	e := newEngine(tb, Options{Config: config, Seed: uint64(seed), Parallelism: 2}, objects) //nolint:gosec // a small number
	capacity := tr.DeviceMilli()
	arrivals, err := trace.Arrivals(tr.Pods, capacity, load, seed)
	if err != nil {
		tb.Fatal(err)
	}
	var arrived, allocated int64
	var sum, events float64
	for i := range arrivals {
		pod := arrivals[i].Object(config.Profiles[0].SchedulerName)
		arrived += arrivals[i].DeviceMilli()
		if schedule(tb, e, pod).Node != "" {
			allocated += arrivals[i].DeviceMilli()
		} else if err := e.Delete(tb.Context(), pod.Namespace, pod.Name); err != nil {
			tb.Fatal(err)
		}
		if math.Round(100*float64(arrived)/float64(capacity)) == 100 {
			sum += 100 * float64(allocated) / float64(capacity)
			events++
		}
	}
	return sum / events
}

// BenchmarkOpenb is one seed of the paper's experiment, inflation included, with
// Berth's own profile.
func BenchmarkOpenb(b *testing.B) {
	tr := readOpenb(b, "default")
	b.ReportAllocs()
	for b.Loop() {
		allocated := replayOpenb(b, tr, gpuProfile, 1.3, 42)
		if allocated < 90 {
			b.Fatalf("allocated %.2f %%", allocated)
		}
		b.ReportMetric(allocated, "%allocated")
	}
}
