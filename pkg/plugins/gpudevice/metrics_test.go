// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// served returns what kube-scheduler's endpoint would serve of our metrics for a
// profile, by name and further labels.
func served(t *testing.T, profile string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), "berth_gpudevice_")
		if !ours {
			continue
		}
		for _, metric := range family.GetMetric() {
			key, mine := []string{name}, false
			for _, label := range metric.GetLabel() {
				if label.GetName() == "profile" {
					mine = label.GetValue() == profile
				} else {
					key = append(key, label.GetValue())
				}
			}
			if mine {
				got[strings.Join(key, " ")] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	foreign := sharePod("foreign", 100)
	foreign.Spec.NodeName = "blocked"
	args := gpuArgs()
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1000}}
	args.NodeAndNamespaceMetrics = true
	profile, pl := startProfile(t, args, schedtest.Options{
		Name: t.Name(),
		Nodes: []*corev1.Node{
			makeNode("plain", nil), gpuNode("a", 2), gpuNode("blocked", 1),
			labeled(gpuNode("h100", 4), "nvidia.com/gpu.product", "NVIDIA-H100"),
			labeled(gpuNode("refused", 1), "nvidia.com/gpu.count", "x"),
		},
		Pods: []*corev1.Pod{boundPod("bound", 500, "a", "0"), foreign},
	})
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pl.allocations.clock = clock
	assumed := sharePod("assumed", 2000)
	assumed.Namespace = "team"
	succeed(t, reserveOn(t, profile, assumed, "h100"))
	clock.Step(7 * time.Second)
	want := map[string]float64{
		"capacity_milli nvidia-a100": 3000, "allocated_milli nvidia-a100": 500,
		"capacity_milli nvidia-h100": 4000, "allocated_milli nvidia-h100": 2000,
		"refused_nodes InvalidCount": 1, "blocked_nodes": 1,
		"unlisted_devices": 0, "reservations": 1, "oldest_reservation_seconds": 7,
		// Half a device is idle where no whole one fits.
		"fragmentation_milli Q2LackGPU": 500, "fragmentation_milli Q3Satisfied": 4000,
		"fragmentation_milli Q1LackBoth": 0, "fragmentation_milli Q4LackCPU": 0, "fragmentation_milli XLSatisfied": 0,
		"fragmentation_milli XRLackCPU": 0, "fragmentation_milli NoAccess": 0,
		"node_capacity_milli nvidia-a100 a": 2000, "node_allocated_milli nvidia-a100 a": 500,
		"node_capacity_milli nvidia-a100 blocked": 1000, "node_allocated_milli nvidia-a100 blocked": 0,
		"node_capacity_milli nvidia-h100 h100": 4000, "node_allocated_milli nvidia-h100 h100": 2000,
		"namespace_allocated_milli default": 500, "namespace_allocated_milli team": 2000,
	}
	got := served(t, t.Name())
	for key := range got {
		if strings.HasPrefix(key, "node_rejections_total") {
			delete(got, key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected metrics (-want,+got):\n%s", diff)
	}
}

// TestUsageIsBounded: of more nodes and namespaces than there are series for, the rest is
// summed up, and nothing is lost.
func TestUsageIsBounded(t *testing.T) {
	d := &usageDetail{nodes: map[nodeLabels]modelUsage{}, namespaces: map[string]int64{}}
	node := &device.Node{Model: "m"}
	used := device.NewUsage(2, 1024, device.Set(0))
	used.Take(1, device.Share{Milli: 300})
	for i := range maxNodes + 7 {
		d.addNode(fmt.Sprintf("n%04d", i), node, 2000, &used)
	}
	for i := range maxNamespaces + 5 {
		d.addPod(fmt.Sprintf("ns%04d", i), &device.PodUsage{{Milli: 100}})
	}
	d.addPod(otherNamespaces, &device.PodUsage{{Milli: 1}}) // a name like any other, and one of those beyond
	nodes, namespaces := d.bounded()
	if len(nodes) != maxNodes+1 || nodes[nodeLabels{otherNodes, otherModels}] != (modelUsage{capacity: 7 * 2000, allocated: 7 * 300}) || nodes[nodeLabels{"n0999", "m"}] != (modelUsage{capacity: 2000, allocated: 300}) {
		t.Errorf("%d nodes, the others %+v", len(nodes), nodes[nodeLabels{otherNodes, otherModels}])
	}
	if len(namespaces) != maxNamespaces+1 || namespaces[otherNamespaces] != 5*100+1 {
		t.Errorf("%d namespaces, the others %d", len(namespaces), namespaces[otherNamespaces])
	}
}

func TestRejectionsAreCounted(t *testing.T) {
	profile, _ := startProfile(t, gpuArgs(), schedtest.Options{
		Name:  t.Name(),
		Nodes: []*corev1.Node{makeNode("plain", nil), gpuNode("full", 1), gpuNode("free", 1)},
		Pods:  []*corev1.Pod{boundPod("whole", 1000, "full", "0")},
	})
	for range 2 {
		if _, status := profile.Filter(t.Context(), t, sharePod("p", 100)); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	for _, pod := range []*corev1.Pod{sharePod("p", 1500), sharePod("p", 9000)} {
		profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), pod)
	}
	got := served(t, t.Name())
	for key := range got {
		if strings.HasPrefix(key, "node_capacity") || strings.HasPrefix(key, "namespace_") {
			t.Errorf("%s without nodeAndNamespaceMetrics", key)
		}
	}
	for key, want := range map[string]float64{
		"node_rejections_total NotShared": 2, "node_rejections_total NoShare": 2, "node_rejections_total WrongModel": 0,
		"pod_rejections_total InvalidMilli": 1, "pod_rejections_total NoNode": 1,
	} {
		if got[key] != want {
			t.Errorf("%s: want %g, got %g", key, want, got[key])
		}
	}
}

func TestEventsAreCounted(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	counters := map[string]func() (float64, error){
		"conflicts":  func() (float64, error) { return testutil.GetCounterMetricValue(conflicts) },
		"unassigned": func() (float64, error) { return testutil.GetCounterMetricValue(unrecordedPods) },
		"edits":      func() (float64, error) { return testutil.GetCounterMetricValue(recordEdits) },
	}
	values := func() map[string]float64 {
		got := map[string]float64{}
		for name, get := range counters {
			value, err := get()
			must(t, err)
			got[name] = value
		}
		return got
	}
	before := values()
	h := handler(t, pl)
	foreign := sharePod("foreign", 100)
	foreign.Spec.NodeName = "n"
	a, b := boundPod("a", 600, "n", "0"), boundPod("b", 600, "n", "0")
	for _, pod := range []*corev1.Pod{a, b, foreign} {
		add(t, profile, h, pod)
		h.OnUpdate(pod, pod)
	}
	h.OnUpdate(a, boundPod("a", 600, "n", "1"))
	for name, value := range values() {
		if value != before[name]+1 {
			t.Errorf("%s: want 1 more than %g, got %g", name, before[name], value)
		}
	}
}

// Models are node labels: whoever makes them up must not fill the metrics.
func TestModelsAreBounded(t *testing.T) {
	u := &metricsSnapshot{models: map[string]*modelUsage{}}
	for i := range 100 {
		u.of(fmt.Sprintf("model-%03d", i)).capacity += 1000
	}
	u.of("").allocated += 5
	byModel := u.byModel()
	if got := len(byModel); got != maxModels+1 {
		t.Errorf("want %d values, got %d", maxModels+1, got)
	}
	if got, want := byModel[otherModels], (modelUsage{capacity: 1000 * (100 - maxModels), allocated: 5}); got != want {
		t.Errorf("want %v of all others, got %v", want, got)
	}
}
