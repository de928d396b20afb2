// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const memoryMiB = 40960

// gpuArgs are the arguments of the plugin.
func gpuArgs() *config.GPUDeviceArgs {
	return &config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceBestFit},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
}

// gpuNode is a node that shares its devices.
func gpuNode(name string, devices int) *corev1.Node {
	allocatable := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{
			names.GPUSharingLabel: "true", "nvidia.com/gpu.count": strconv.Itoa(devices), "nvidia.com/gpu.memory": strconv.Itoa(memoryMiB), "nvidia.com/gpu.product": "A100",
		}},
		Status: corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
	}
}

// sharedDevices is how many devices a node shares, 0 if it shares none.
func sharedDevices(node *corev1.Node) int {
	if node.Labels[names.GPUSharingLabel] != "true" {
		return 0
	}
	devices, _ := strconv.Atoi(node.Labels["nvidia.com/gpu.count"])
	return devices
}

// limitPod asks for an amount of a resource.
func limitPod(name, resourceName, amount string) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// sharePod asks for thousandths of a device.
func sharePod(name string, milli int) *corev1.Pod {
	return limitPod(name, names.GPUMilliResource, strconv.Itoa(milli))
}

// onNode keeps a pod to one node, which only the tests' own Filter reads.
func onNode(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

var handover = &scenario{
	name: "handover", standbys: 1, kill: true, lose: true,
	nodes:  []*corev1.Node{gpuNode("n", 1)},
	pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
	bounds: bounds{attempts: 1, faults: 1, ticks: []time.Duration{6 * time.Second}, answers: true},
}
