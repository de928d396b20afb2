// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

const (
	root = "../../.."
	// The openb trace of Alibaba (2023) lies beside the repository, not in it.
	openbFolder = root + "/../shared/data/openb"
)

func readOpenb(tb testing.TB, list string) *trace.Trace {
	tb.Helper()
	tr := &trace.Trace{}
	for _, name := range []string{"openb_node_list_gpu_node.csv", "openb_pod_list_" + list + ".csv"} {
		file, err := os.Open(filepath.Join(openbFolder, name))
		if err != nil {
			tb.Skipf("the openb trace is not at hand: %v", err)
		}
		err = tr.Read(file, name)
		file.Close()
		if err != nil {
			tb.Fatal(err)
		}
	}
	return tr
}

// newEngine builds an engine on the nodes of the trace.
func newEngine(tb testing.TB, tr *trace.Trace, profile string, seed uint64, parallelism int) (*engine.Engine, string) {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(root, profile))
	if err != nil {
		tb.Fatal(err)
	}
	config, err := engine.LoadConfiguration(profile, content)
	if err != nil {
		tb.Fatal(err)
	}
	var objects cluster.Cluster
	for i := range tr.Nodes {
		if err := objects.Add(tr.Nodes[i].Object()); err != nil {
			tb.Fatal(err)
		}
	}
	e, err := engine.New(tb.Context(), engine.Options{Config: config, Seed: seed, Parallelism: parallelism}, &objects)
	if err != nil {
		tb.Fatal(err)
	}
	return e, config.Profiles[0].SchedulerName
}

// replay returns the mean allocation in percent while the arrived load rounds to
// percent of the cluster, and how many pods failed in all.
func replay(tb testing.TB, tr *trace.Trace, e *engine.Engine, schedulerName string, load float64, seed int64, percent float64) (allocation float64, failed int) {
	tb.Helper()
	capacity := tr.DeviceMilli()
	arrivals, err := trace.Arrivals(tr.Pods, capacity, load, seed)
	if err != nil {
		tb.Fatal(err)
	}
	var arrived, allocated int64
	var sum, events float64
	for i := range arrivals {
		pod := arrivals[i].Object(schedulerName)
		result, err := e.Schedule(tb.Context(), pod)
		if err != nil {
			tb.Fatal(err)
		}
		arrived += arrivals[i].DeviceMilli()
		if result.Outcome == engine.Bound {
			allocated += arrivals[i].DeviceMilli()
		} else {
			failed++
			if err := e.Delete(tb.Context(), pod.Namespace, pod.Name); err != nil {
				tb.Fatal(err)
			}
		}
		if math.Round(100*float64(arrived)/float64(capacity)) == percent {
			sum += 100 * float64(allocated) / float64(capacity)
			events++
		}
	}
	return sum / events, failed
}

// BenchmarkOpenb is one seed of the paper's experiment with Berth's profile.
func BenchmarkOpenb(b *testing.B) {
	tr := readOpenb(b, "default")
	for b.Loop() {
		e, name := newEngine(b, tr, "config/berth-scheduler/gpu.yaml", 42, 2)
		allocation, failed := replay(b, tr, e, name, 1.3, 42, 100)
		b.ReportMetric(allocation, "%allocated")
		b.ReportMetric(float64(failed), "failed")
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
