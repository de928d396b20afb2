// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
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

// form is how nodes and pods of a trace ask for devices.
type form interface {
	// objects are those that are neither of a node nor of a pod.
	objects() []runtime.Object
	node(*trace.Node) []runtime.Object
	pod(p *trace.Pod, schedulerName string) *corev1.Pod
}

// shares are nodes and pods as Berth shares devices.
type shares struct{}

func (shares) objects() []runtime.Object { return nil }

func (shares) node(n *trace.Node) []runtime.Object { return []runtime.Object{n.Object()} }

func (shares) pod(p *trace.Pod, schedulerName string) *corev1.Pod { return p.Object(schedulerName) }

// replayOpenb runs the paper's experiment with one seed up to the load, and
// returns the mean allocation in percent while the arrived load rounds to 100 %.
func replayOpenb(tb testing.TB, tr *trace.Trace, as form, config *schedconfig.KubeSchedulerConfiguration, load float64, seed int64) float64 {
	tb.Helper()
	list := as.objects()
	for i := range tr.Nodes {
		list = append(list, as.node(&tr.Nodes[i])...)
	}
	objects := makeCluster(tb, list...)
	scheduler := config.Profiles[0].SchedulerName
	e := newEngine(tb, Options{Config: config, SchedulerName: scheduler, Seed: uint64(seed), Parallelism: 2}, objects) //nolint:gosec // a small number
	capacity := tr.DeviceMilli()
	arrivals, err := trace.Arrivals(tr.Pods, capacity, load, seed)
	if err != nil {
		tb.Fatal(err)
	}
	var arrived, allocated int64
	var sum, events float64
	for i := range arrivals {
		pod := as.pod(&arrivals[i], scheduler)
		arrived += arrivals[i].DeviceMilli()
		if schedule(tb, e, pod).Node != "" {
			allocated += arrivals[i].DeviceMilli()
		} else if err := e.Delete(tb.Context(), pod.Namespace, pod.Name); err != nil {
			tb.Fatal(err)
		}
		percent := math.Round(100 * float64(arrived) / float64(capacity))
		if percent > 100 {
			break
		}
		if percent == 100 {
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
		allocated := replayOpenb(b, tr, shares{}, loadProfile(b, gpuProfile), 1.3, 42)
		if allocated < 90 {
			b.Fatalf("allocated %.2f %%", allocated)
		}
		b.ReportMetric(allocated, "%allocated")
	}
}
