// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// TestMetrics checks numbers that were computed by hand, on 3 devices:
//
//	pod  asks for          load    allocated   idle, by what it is to a pod with a device and a CPU
//	a    0.4 GPU on n0      13 %      13 %      n0: 0.6 too full (Q2), 1 of use (Q3); n1: 1 of use
//	b    2 CPU on n1        13 %      13 %      n1: 1 without CPU (Q4)
//	c    2 GPU, fails       80 %      13 %
//	d    1 GPU on n0       113 %      47 %      n0: 0.6 without GPU (Q2)
//
// At 100 % nothing arrives, so the state is that of 80 %.
func TestMetrics(t *testing.T) {
	nodes := testNodes()
	run := record(t, nodes, wholeDevice(t), testEvents(t, nodes)).Run(7)

	want := map[string]float64{
		"allocatedPercentAt100": 13.3333, "allocatedPercent": 46.6667,
		"fragmentedPercentAt100": 53.3333, "fragmentedPercent": 53.3333,
		"fragmentationRatioPercentAt100": 61.5385, "fragmentationRatioPercent": 100,
		"idlePercentQ1LackBoth": 0, "idlePercentQ2LackGPU": 20, "idlePercentQ3Satisfied": 0, "idlePercentQ4LackCPU": 33.3333,
		"idlePercentXLSatisfied": 0, "idlePercentXRLackCPU": 0, "idlePercentNoAccess": 0,
		"pods": 4, "podsPlaced": 3, "podsFailed": 1,
		"podsFailedCPUOnly": 0, "podsFailedShare": 0, "podsFailedWhole": 1, "podsFailedSeveral": 1, "podsFailedConstrained": 1, "devicesFailed": 2,
		"podsEvicted": 0, "podsWithoutDevices": 0,
		"nodesUsed": 2, "devicesUsed": 2, "cpuPercent": 66.6667, "memoryPercent": 25,
	}
	if diff := cmp.Diff(want, run.Metrics); diff != "" {
		t.Errorf("metrics (-want,+got):\n%s", diff)
	}
	for cause := range device.Causes {
		if _, ok := want["idlePercent"+device.Cause(cause).String()]; !ok {
			t.Errorf("no metric for %s", device.Cause(cause))
		}
	}
	if len(want) != len(Metrics()) {
		t.Errorf("%d metrics, want %d", len(Metrics()), len(want))
	}
	if run.Seed != 7 || len(run.Points) != 114 {
		t.Fatalf("seed %d with %d points, want 7 with 114", run.Seed, len(run.Points))
	}
	for x, want := range map[int]Point{
		0: {},
		// One percent around an arrival is the arrival.
		12: {Allocated: 13.3333, Fragmented: 36.6667, Ratio: 42.3077},
		// The mean of two arrivals.
		13: {Allocated: 13.3333, Fragmented: 36.6667, Ratio: 42.3077},
		80: {Allocated: 13.3333, Fragmented: 53.3333, Ratio: 61.5385},
		// Far from any, what was last.
		100: {Allocated: 13.3333, Fragmented: 53.3333, Ratio: 61.5385},
		113: {Allocated: 46.6667, Fragmented: 53.3333, Ratio: 100},
	} {
		if diff := cmp.Diff(want, run.Points[x]); diff != "" {
			t.Errorf("at %d %% (-want,+got):\n%s", x, diff)
		}
	}
	wantPlacements := []Placement{
		{Pod: "trace/a", Node: "n0", Devices: "main=0:400m:6553Mi"},
		{Pod: "trace/b", Node: "n1"},
		{Pod: "trace/c", Message: "0/2 nodes are available: 1 node(s) had no room on their devices, 1 node(s) had another model."},
		{Pod: "trace/d", Node: "n0", Devices: "main=1:1000m:16384Mi"},
	}
	if diff := cmp.Diff(wantPlacements, run.Placements); diff != "" {
		t.Errorf("placements (-want,+got):\n%s", diff)
	}
}

// TestWholeDevicesForShares checks numbers that were computed by hand, for a
// scheduler that gives each pod whole devices, on 2 devices of n0 and 1 of n1:
//
//	pod  asks for            takes        load   allocated   idle
//	a    0.4 GPU             1 on n0      13 %      13 %     n0: 0.6 is nobody's (Q2), 1 of use; n1: 1 of use
//	b    0.5 GPU             1 on n0      30 %      30 %     n0: 0.6 and 0.5 are nobody's; n1: 1 of use
//	c    0.5 GPU, fails      -            47 %      30 %
//	d    1 GPU               1 on n1      80 %      63 %     n0: 1.1 is nobody's
//
// and then a is evicted for e, which fits nowhere all the same.
func TestWholeDevicesForShares(t *testing.T) {
	rows := []trace.Node{{Name: "n0", CPUMilli: 4000, MemoryMiB: 8192, Devices: 2, Model: "T4"}, {Name: "n1", CPUMilli: 2000, MemoryMiB: 8192, Devices: 1, Model: "A10"}}
	whole := (&trace.Trace{Nodes: rows}).WholeDevices()
	r := NewRecorder([]*corev1.Node{whole.Node(&rows[0]), whole.Node(&rows[1])}, nil, &keys, wholeDevice(t))
	arrive := func(name string, milli int64, node string, victims ...*corev1.Pod) *corev1.Pod {
		t.Helper()
		row := trace.Pod{Name: name, CPUMilli: 1000, Devices: 1, Milli: milli}
		pod := whole.Pod(&row, "default-scheduler")
		pod.Spec.NodeName = node
		if err := r.Record(Event{Pod: pod, Asked: row.Object("default-scheduler"), Node: node, Victims: victims}); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	check := func(want map[string]float64) {
		t.Helper()
		got := r.Run(1).Metrics
		for key := range got {
			if _, ok := want[key]; !ok {
				delete(got, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metrics (-want,+got):\n%s", diff)
		}
	}
	a := arrive("a", 400, "n0")
	arrive("b", 500, "n0")
	check(map[string]float64{"allocatedPercent": 30, "fragmentedPercent": 36.6667, "idlePercentQ2LackGPU": 36.6667, "idlePercentQ3Satisfied": 33.3333, "devicesUsed": 2})
	arrive("c", 500, "")
	arrive("d", 1000, "n1")
	check(map[string]float64{
		"allocatedPercent": 63.3333, "fragmentedPercent": 36.6667, "fragmentationRatioPercent": 100, "devicesUsed": 3,
		"podsPlaced": 3, "podsFailedShare": 1, "podsFailedWhole": 0, "devicesFailed": 0.5,
	})
	arrive("e", 1000, "", a)
	check(map[string]float64{"allocatedPercent": 50, "fragmentedPercent": 16.6667, "idlePercentQ3Satisfied": 33.3333, "devicesUsed": 2, "podsEvicted": 1})
}

// TestMetricsThatMeanNothing are absent, not zero.
func TestMetricsThatMeanNothing(t *testing.T) {
	plain := []*corev1.Node{(&trace.Node{Name: "n", CPUMilli: 1000}).Object()}
	cpuPod := Event{Pod: bound(t, trace.Pod{Name: "p", CPUMilli: 500}, plain[0]), Node: "n"}
	tests := []struct {
		name     string
		nodes    []*corev1.Node
		workload *device.Workload
		events   []Event
		absent   []string
		present  []string
		points   int
	}{
		{
			name: "no devices", nodes: plain, events: []Event{cpuPod},
			absent:  []string{"allocatedPercent", "allocatedPercentAt100", "fragmentedPercent", "idlePercentQ3Satisfied"},
			present: []string{"cpuPercent", "pods"},
		},
		{
			name: "nothing expected", nodes: testNodes(), events: testEvents(t, testNodes()),
			absent:  []string{"fragmentedPercent", "fragmentedPercentAt100", "fragmentationRatioPercentAt100", "idlePercentQ3Satisfied"},
			present: []string{"allocatedPercent", "allocatedPercentAt100"},
			points:  114,
		},
		{
			name: "less load than there are devices", nodes: testNodes(), workload: wholeDevice(t), events: testEvents(t, testNodes())[:2],
			absent:  []string{"allocatedPercentAt100", "fragmentedPercentAt100", "fragmentationRatioPercentAt100"},
			present: []string{"allocatedPercent", "fragmentedPercent"},
			points:  14,
		},
		{
			name: "no arrival", nodes: testNodes(), workload: wholeDevice(t),
			absent:  []string{"allocatedPercentAt100"},
			present: []string{"allocatedPercent", "pods"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := record(t, tt.nodes, tt.workload, tt.events).Run(1)
			for _, key := range tt.absent {
				if value, ok := run.Metrics[key]; ok {
					t.Errorf("metric %s is %v, and means nothing", key, value)
				}
			}
			for _, key := range tt.present {
				if _, ok := run.Metrics[key]; !ok {
					t.Errorf("metric %s is missing", key)
				}
			}
			if len(run.Points) != tt.points {
				t.Errorf("%d points, want %d", len(run.Points), tt.points)
			}
		})
	}
}

// TestBoundPods occupy devices from the start, and are no arrivals.
func TestBoundPods(t *testing.T) {
	nodes := testNodes()
	plugin := &corev1.Node{}
	plugin.Name = "n2"
	plugin.Status.Allocatable = corev1.ResourceList{
		"cpu": resource.MustParse("8"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("4"),
	}
	nodes = append(nodes, plugin)
	share := bound(t, trace.Pod{Name: "share", CPUMilli: 1000, Devices: 1, Milli: 500}, nodes[0], 1)
	vendor := (&trace.Pod{Name: "vendor"}).Object("")
	vendor.Spec.NodeName = "n2"
	vendor.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("3")}
	vendor.Spec.Containers[0].Resources.Requests = vendor.Spec.Containers[0].Resources.Limits // as every API server sets them
	elsewhere := bound(t, trace.Pod{Name: "elsewhere", Devices: 1, Milli: 1000}, nodes[0], 0)
	elsewhere.Spec.NodeName = "gone"
	unknown := bound(t, trace.Pod{Name: "unknown", Devices: 1, Milli: 1000}, nodes[1], 0)
	delete(unknown.Annotations, names.GPUAssignedAnnotation)

	pods := []*corev1.Pod{share, vendor, elsewhere, unknown}
	want := Cluster{Nodes: 3, BoundPods: 4, CPUMilli: 14000, MemoryMiB: 8192 + 8192 + 1024, Devices: 7, DevicesInUse: 3.5}
	if diff := cmp.Diff(want, ClusterOf(nodes, pods, &keys)); diff != "" {
		t.Errorf("ClusterOf (-want,+got):\n%s", diff)
	}
	run := NewRecorder(nodes, pods, &keys, wholeDevice(t)).Run(1)
	for key, want := range map[string]float64{"allocatedPercent": 50, "devicesUsed": 4, "pods": 0, "nodesUsed": 0, "podsWithoutDevices": 0} {
		if got := run.Metrics[key]; got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
}

// TestEviction gives back what the victim held.
func TestEviction(t *testing.T) {
	nodes := testNodes()
	victim := bound(t, trace.Pod{Name: "victim", CPUMilli: 500, MemoryMiB: 64, Devices: 2, Milli: 1000}, nodes[0], 0, 1)
	preemptor := bound(t, trace.Pod{Name: "preemptor", Devices: 1, Milli: 1000}, nodes[0], 0)
	run := record(t, nodes, nil, []Event{
		{Pod: victim, Node: "n0"},
		{Pod: preemptor, Node: "n0", Victims: []*corev1.Pod{victim}},
	}).Run(1)
	for key, want := range map[string]float64{"allocatedPercent": 33.3333, "podsEvicted": 1, "podsPlaced": 2, "cpuPercent": 0, "memoryPercent": 0, "devicesUsed": 1} {
		if got := run.Metrics[key]; got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	r := Report{Profiles: []Profile{{}}}
	r.Profiles[0].SetRuns([]Run{run}, false)
	if r.AllPlaced() {
		t.Error("all were placed, though one was evicted")
	}
}

// TestContradictions are faults of the engine, and end the simulation.
func TestContradictions(t *testing.T) {
	nodes := testNodes()
	whole := trace.Pod{Name: "p", Devices: 1, Milli: 1000}
	other := trace.Pod{Name: "q", Devices: 1, Milli: 1}
	tests := []struct {
		name   string
		events []Event
		want   string
	}{
		{
			name:   "a device twice",
			events: []Event{{Pod: bound(t, whole, nodes[0], 1), Node: "n0"}, {Pod: bound(t, other, nodes[0], 1), Node: "n0"}},
			want:   "pod trace/q was given a device of node n0 that is in use or does not exist",
		},
		{
			name:   "a device that is not there",
			events: []Event{{Pod: bound(t, whole, nodes[1], 3), Node: "n1"}},
			want:   "pod trace/p was given a device of node n1 that is in use or does not exist",
		},
		{
			name:   "another node",
			events: []Event{{Pod: bound(t, whole, nodes[0], 1), Node: "n1"}},
			want:   `pod trace/p was bound to node "n1", but spec.nodeName is "n0"`,
		},
		{
			name:   "no such node",
			events: []Event{{Pod: bound(t, whole, (&trace.Node{Name: "n9", Devices: 1}).Object(), 0), Node: "n9"}},
			want:   `pod trace/p was bound to node "n9", which does not exist`,
		},
		{
			name:   "a pod twice",
			events: []Event{{Pod: bound(t, whole, nodes[0], 1), Node: "n0"}, {Pod: bound(t, whole, nodes[1], 0), Node: "n1"}},
			want:   "pod trace/p was bound twice",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRecorder(nodes, nil, &keys, nil)
			var err error
			for _, event := range tt.events {
				if err != nil {
					t.Fatal(err)
				}
				err = r.Record(event)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestDemand counts what a pod asks for at the busiest point of its life.
func TestDemand(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name, resourceName, amount string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)},
		}}
	}
	sidecar := container("sidecar", names.GPUMilliResource, "100")
	sidecar.RestartPolicy = &always
	tests := []struct {
		name        string
		init, main  []corev1.Container
		annotations map[string]string
		wantMilli   int64 // on devices of 10 GiB
		wantShape   shape
		constrained bool
	}{
		{name: "nothing", main: []corev1.Container{container("a", "cpu", "1")}, wantShape: cpuOnly},
		{name: "a share", main: []corev1.Container{container("a", names.GPUMilliResource, "300")}, wantMilli: 300, wantShape: share},
		{name: "whole devices", main: []corev1.Container{container("a", names.GPUMilliResource, "3k")}, wantMilli: 3000, wantShape: whole},
		{name: "a vendor's devices", main: []corev1.Container{container("a", "nvidia.com/gpu", "2")}, wantMilli: 2000, wantShape: whole},
		{name: "memory alone", main: []corev1.Container{container("a", names.GPUMemoryResource, "5Gi")}, wantMilli: 500, wantShape: share},
		{name: "more memory than a device has", main: []corev1.Container{container("a", names.GPUMemoryResource, "50Gi")}, wantMilli: 1000, wantShape: share},
		{
			name: "a model", main: []corev1.Container{container("a", names.GPUMilliResource, "300")},
			annotations: map[string]string{names.GPUModelAnnotation: "T4"}, wantMilli: 300, wantShape: share, constrained: true,
		},
		{
			name: "a minimum of memory", main: []corev1.Container{container("a", names.GPUMilliResource, "1k")},
			annotations: map[string]string{names.GPUMinMemoryAnnotation: "40Gi"}, wantMilli: 1000, wantShape: whole, constrained: true,
		},
		{
			name: "main containers beside a sidecar",
			init: []corev1.Container{sidecar}, main: []corev1.Container{container("a", names.GPUMilliResource, "300"), container("b", names.GPUMilliResource, "1k")},
			wantMilli: 1400, wantShape: share,
		},
		{
			name: "an init container that takes most",
			init: []corev1.Container{sidecar, container("first", names.GPUMilliResource, "2k")}, main: []corev1.Container{container("a", names.GPUMilliResource, "1k")},
			wantMilli: 2100, wantShape: share,
		},
		{name: "what can never be served", main: []corev1.Container{container("a", names.GPUMilliResource, "1500")}, wantShape: cpuOnly},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tt.init, Containers: tt.main}}
			pod.Annotations = tt.annotations
			d := podRequestOf(pod, &keys)
			if got := d.milli(10 << 10); got != tt.wantMilli {
				t.Errorf("%d milli, want %d", got, tt.wantMilli)
			}
			if got := d.shape(); got != tt.wantShape {
				t.Errorf("shape %d, want %d", got, tt.wantShape)
			}
			if got := d.constrained(); got != tt.constrained {
				t.Errorf("constrained %v, want %v", got, tt.constrained)
			}
		})
	}
}

// TestSeriesHasALimit, so that a cluster with one device and a thousand pods does
// not fill the memory.
func TestSeriesHasALimit(t *testing.T) {
	var s series
	s.add(1e9, Point{Allocated: 1})
	s.add(-3, Point{Allocated: 2})
	points := s.points()
	if len(points) != maxLoad+1 || points[maxLoad].Allocated != 1 || points[0].Allocated != 2 {
		t.Errorf("%d points from %v to %v", len(points), points[0], points[len(points)-1])
	}
}
