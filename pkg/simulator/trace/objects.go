// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// Namespace is the namespace of the trace's pods.
	Namespace = "trace"
	// container is the one container of each.
	container = "main"
	// podsPerNode is the paper's limit, which nothing reaches.
	podsPerNode = 1001
	// deviceMemoryMiB is the memory of every device. The trace knows none, and
	// since pods ask for compute alone, and memory is derived in proportion, any
	// number gives the same placements.
	deviceMemoryMiB = 16384
)

// Object returns the node as the API would have it: its devices shared, and
// described in the labels of NVIDIA's GPU feature discovery. Every call makes a
// new object.
func (n *Node) Object() *corev1.Node {
	node := n.object()
	if n.Devices > 0 {
		node.Labels[names.GPUSharingLabel] = "true"
	}
	return node
}

// object returns the node with its devices described and not offered.
func (n *Node) object() *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: n.Name}
	if n.Devices > 0 {
		keys := device.DefaultNodeKeys()
		labels[keys.Count] = strconv.Itoa(n.Devices)
		labels[keys.Memory] = strconv.Itoa(deviceMemoryMiB)
		if n.Model != "" {
			labels[keys.Product] = n.Model
		}
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(n.CPUMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(n.MemoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Object returns the pod as the API would have it: one container that requests
// what it may use, devices by the limit gpu-milli. Every call makes a new object.
// Its UID is the name, so the same pod has the same UID in every run.
func (p *Pod) Object(schedulerName string) *corev1.Pod {
	pod := p.object(schedulerName, names.GPUMilliResource, p.DeviceMilli())
	if p.Models != "" {
		pod.Annotations = map[string]string{names.GPUModelAnnotation: p.modelList()}
	}
	return pod
}

// object returns the pod with so much of the resource by which it asks for devices.
func (p *Pod) object(schedulerName string, devices corev1.ResourceName, amount int64) *corev1.Pod {
	limits := corev1.ResourceList{}
	if p.CPUMilli > 0 {
		limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(p.CPUMilli, resource.DecimalSI)
	}
	if p.MemoryMiB > 0 {
		limits[corev1.ResourceMemory] = *resource.NewQuantity(p.MemoryMiB<<20, resource.BinarySI)
	}
	if amount > 0 {
		limits[devices] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: Namespace, UID: types.UID(p.Name)},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers: []corev1.Container{{
				Name:      container,
				Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}
