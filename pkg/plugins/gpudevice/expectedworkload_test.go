// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// expected returns what is expected, as "thousandths x devices: weight".
func expected(pl *GPUDevice) []string {
	published := pl.workload.published.Load()
	if published == nil {
		return nil
	}
	var classes []string
	for _, class := range published.Classes() {
		classes = append(classes, fmt.Sprintf("%dx%d: %d", class.Milli, class.Devices, class.Weight))
	}
	return classes
}

func TestExpectedWorkloadFromArgs(t *testing.T) {
	args := gpuArgs()
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{
		{Weight: 2, CPU: resource.MustParse("3500m"), GPUMilli: 500},
		{Weight: 3, GPUMilli: 8000, GPUModel: "A*", GPUMinMemory: resource.MustParse("40Gi")},
		{Weight: 5, GPUMemory: resource.MustParse("1000M")},
		{Weight: 1, CPU: resource.MustParse("1")},
	}
	_, pl := newProfile(t, args, schedtest.Options{})
	models, err := device.ParseModels("A*")
	must(t, err)
	want := []device.Class{
		{Weight: 5, Shape: device.Shape{Devices: 1, MemoryMiB: 954}},
		{Weight: 3, Shape: device.Shape{Devices: 8, Milli: 1000, Models: models, MinMemoryMiB: 40960}},
		{Weight: 2, Shape: device.Shape{CPUMilli: 3500, Devices: 1, Milli: 500}},
		{Weight: 1, Shape: device.Shape{CPUMilli: 1000}},
	}
	got := pl.workload.published.Load().Classes()
	equal := cmp.Comparer(func(a, b device.Models) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Errorf("Unexpected classes (-want,+got):\n%s", diff)
	}
	if pl.workload.learner != nil {
		t.Error("something is learned besides")
	}
}

// A pod counts once, however often it is tried, and pods without devices do not
// count.
func TestLearned(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 8)}})
	for range 5 {
		profile.NewCycle(t.Context(), t, sharePod("often", 300))
	}
	profile.NewCycle(t.Context(), t, makePod("plain"))
	profile.NewCycle(t.Context(), t, makePod("plugin", "nvidia.com/gpu", "2"))
	want := []string{"1000x2: 1048576", "300x1: 1048576"}
	if diff := cmp.Diff(want, expected(pl)); diff != "" {
		t.Errorf("Unexpected workload (-want,+got):\n%s", diff)
	}
	// A pod that is gone can be forgotten; it does not come back.
	pl.allocations.forgetSeen("uid-of-often")
	if _, ok := pl.workload.learner.seen["uid-of-often"]; ok {
		t.Error("a pod that is gone is still remembered")
	}
}

// After a restart the pods on the nodes stand for the past, the oldest first,
// whatever the order in which they are found.
func TestLearnedIsRestored(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 200 {
		pod := boundPod(fmt.Sprintf("p%d", i), 1+i%7, fmt.Sprintf("n%d", i%5), "0")
		pod.UID = types.UID(fmt.Sprintf("%03d", (i*37)%200))
		pod.CreationTimestamp = metav1.Time{Time: time.Unix(int64(i/20), 0)}
		pods = append(pods, pod)
	}
	var nodes []*corev1.Node
	for i := range 5 {
		nodes = append(nodes, gpuNode(fmt.Sprintf("n%d", i), 8))
	}
	var first []string
	for range 3 {
		profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: nodes, Pods: pods})
		profile.NewCycle(t.Context(), t, sharePod("p", 500))
		got := expected(pl)
		if first == nil {
			first = got
		}
		if len(got) != 7 {
			t.Fatalf("want the 7 classes that make up most of it, got %q", got)
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Errorf("another restart learned something else (-first,+this):\n%s", diff)
		}
	}
}

// What is scarce depends on the devices that the cluster has, which is known with
// the first cycle.
func TestExpectedWorkloadIsPriced(t *testing.T) {
	rare := gpuNode("rare", 2)
	rare.Labels["nvidia.com/gpu.product"] = "rare"
	args := gpuArgs()
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 3, GPUMilli: 1000}, {Weight: 1, GPUMilli: 1000, GPUModel: "rare"}}
	profile, pl := startProfile(t, args, schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 8), rare}})
	for range 3 {
		profile.NewCycle(t.Context(), t, sharePod("p", 1000))
	}
	// The second was published when the devices were counted.
	if got := pl.workload.published.Load().epoch; got != 2 {
		t.Errorf("%d workloads were published, want 2", got)
	}
	want := []device.Supply{{Model: "nvidia-a100", MemoryMiB: a100Memory, Devices: 8}, {Model: "rare", MemoryMiB: a100Memory, Devices: 2}}
	if diff := cmp.Diff(want, pl.workload.supply); diff != "" {
		t.Errorf("Unexpected devices (-want,+got):\n%s", diff)
	}
}
