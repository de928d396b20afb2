// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
)

const (
	root = "../../.."
	// gpuProfile is Berth's own, as it is installed.
	gpuProfile   = "config/berth-scheduler/gpu.yaml"
	stockProfile = "config/simulator/default-scheduler.yaml"
	// claimsProfile has DeviceClaims in the place of DynamicResources.
	claimsProfile = "config/berth-scheduler/gpu-claims.yaml"
)

// loadProfile reads a profile of the repository.
func loadProfile(tb testing.TB, file string) *schedconfig.KubeSchedulerConfiguration {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		tb.Fatal(err)
	}
	config, err := LoadConfiguration(file, content)
	if err != nil {
		tb.Fatal(err)
	}
	return config
}

// makeCluster returns a cluster with the objects.
func makeCluster[T runtime.Object](tb testing.TB, objects ...T) *cluster.Cluster {
	tb.Helper()
	c := &cluster.Cluster{}
	for _, obj := range objects {
		if err := c.Add(obj); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// newEngine builds an engine that lives as long as the test.
func newEngine(tb testing.TB, opts Options, c *cluster.Cluster) *Engine {
	tb.Helper()
	e, err := New(tb.Context(), opts, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// schedule is Engine.Schedule for tests in which nothing may fail.
func schedule(tb testing.TB, e *Engine, pod *corev1.Pod) Result {
	tb.Helper()
	result, err := e.Schedule(tb.Context(), pod)
	if err != nil {
		tb.Fatal(err)
	}
	return result
}

// assigned is which devices the Binding gave each container.
func assigned(r Result) string { return r.Pod.Annotations[names.GPUAssignedAnnotation] }

// totals are the scores by node.
func totals(r Result) map[string]int64 {
	totals := map[string]int64{}
	for _, node := range r.Scores {
		totals[node.Name] = node.TotalScore
	}
	return totals
}

// makeNode is a node with so many CPUs and 1 GiB for each.
func makeNode(name string, cpus int) *corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(cpus)<<30, resource.BinarySI),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
	}
}

// makeSharedNode is a node with devices of 16 GiB that are shared.
func makeSharedNode(name string, cpus, devices int, model string) *corev1.Node {
	node := makeNode(name, cpus)
	node.Labels[names.GPUSharingLabel] = "true"
	node.Labels["nvidia.com/gpu.count"] = strconv.Itoa(devices)
	node.Labels["nvidia.com/gpu.memory"] = "16384"
	node.Labels["nvidia.com/gpu.product"] = model
	return node
}

// makePod is a pending pod. requests are pairs of a resource and an amount.
func makePod(name string, requests ...string) *corev1.Pod {
	list := corev1.ResourceList{}
	for i := 0; i < len(requests); i += 2 {
		list[corev1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

// on returns the pod as it is on a node.
func on(pod *corev1.Pod, node string) *corev1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	return bound
}
