// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// GPUDeviceArgs configures the GPUDevice plugin: how nodes describe their
// devices, how nodes and devices are chosen, and what becomes of pods that ask
// for none.
type GPUDeviceArgs struct {
	metav1.TypeMeta

	// DeviceResources are the extended resources that vendors' device plugins
	// advertise, each a whole device. They are counted by NodeResourcesFit; here
	// they are constrained by model and memory, and scored. Empty: none is.
	// Default (nil): nvidia.com/gpu.
	DeviceResources []string
	// Pool is the GPU pool that the scheduler serves: it shares the devices of nodes with
	// this value in label berth.dev/gpu-pool, and of no others. Of several scheduler
	// instances in a cluster each needs a pool of its own; the profiles of one must
	// name the same. Default: empty, the nodes without that label.
	Pool string
	// NodeLabels are the labels in which nodes describe their devices.
	NodeLabels GPUDeviceNodeLabels
	// ScoringStrategy says by what nodes are scored, and by what a share is given
	// one device of its node.
	ScoringStrategy GPUDeviceScoringStrategy
	// ExpectedWorkload is what the strategy FragmentationGradient keeps devices free
	// for. Empty: it is learnt from the pods that ask for devices. It must be empty
	// with any other strategy.
	ExpectedWorkload []GPUDeviceWorkloadClass
	// NonGPUPods says what becomes of pods that ask for no device.
	// Default: Avoid.
	NonGPUPods NonGPUPodPolicy
	// NodeAndNamespaceMetrics adds metrics of what is held of devices by node and by
	// namespace: at most 1,000 nodes and 200 namespaces, the first by name; the rest
	// are summed up as "other". Default: false.
	NodeAndNamespaceMetrics bool
}

// GPUDeviceNodeLabels are label keys. The defaults are those that NVIDIA's GPU
// feature discovery writes.
type GPUDeviceNodeLabels struct {
	// Count is the label with the number of devices.
	// Default: nvidia.com/gpu.count.
	Count string
	// Memory is the label with the memory of each device, in MiB.
	// Default: nvidia.com/gpu.memory.
	Memory string
	// Product is the label with the model of all devices.
	// Default: nvidia.com/gpu.product.
	Product string
	// Replicas is the label with the number of time-slicing replicas of a device;
	// above 1 a node takes no shares. Default: nvidia.com/gpu.replicas.
	Replicas string
	// MIGPrefix is how labels and resources of MIG devices start; a node with
	// one takes no shares. Default: nvidia.com/mig-.
	MIGPrefix string
}

// GPUDeviceScoringStrategy says how nodes and devices are chosen.
type GPUDeviceScoringStrategy struct {
	// Type is the strategy. Default: FragmentationGradient.
	Type GPUDeviceStrategy
}

// GPUDeviceWorkloadClass is a kind of pod that is expected, and how often, in
// the units in which a pod asks for devices.
type GPUDeviceWorkloadClass struct {
	// Weight is the frequency of the class beside the others, 1 to 1000000.
	Weight int64
	// CPU is what the pod requests. Default: 0.
	CPU resource.Quantity
	// GPUMilli is as the limit berth.dev/gpu-milli of a container: 1 to 999 for a
	// share, k times 1000 for k whole devices. 0: derived from GPUMemory; if both
	// are 0, the class asks for no device.
	GPUMilli int64
	// GPUMemory is as the limit berth.dev/gpu-memory of a container.
	// 0: derived from GPUMilli.
	GPUMemory resource.Quantity
	// GPUModel is as the pod annotation berth.dev/gpu-model. Empty: any model.
	GPUModel string
	// GPUMinMemory is as the pod annotation berth.dev/gpu-min-memory.
	// 0: no minimum.
	GPUMinMemory resource.Quantity
}

// GPUDeviceStrategy is the name of a scoring strategy.
type GPUDeviceStrategy string

const (
	// GPUDeviceFragmentationGradient prefers the placement that takes least from
	// what the free devices are worth to the expected workload: gaps that others
	// fit into, devices of models that others insist on, and CPU beside them.
	GPUDeviceFragmentationGradient GPUDeviceStrategy = "FragmentationGradient"
	// GPUDeviceBestFit prefers the placement that leaves least CPU and devices free.
	GPUDeviceBestFit GPUDeviceStrategy = "BestFit"
	// GPUDeviceMostAllocated prefers nodes of whose devices most is in use.
	GPUDeviceMostAllocated GPUDeviceStrategy = "MostAllocated"
	// GPUDeviceLeastAllocated prefers nodes of whose devices least is in use.
	GPUDeviceLeastAllocated GPUDeviceStrategy = "LeastAllocated"
)

// ExpectsWorkload reports whether the strategy reads an expected workload.
func (s GPUDeviceStrategy) ExpectsWorkload() bool {
	return s == GPUDeviceFragmentationGradient
}

// NonGPUPodPolicy says what becomes of pods that ask for no device.
type NonGPUPodPolicy string

const (
	// NonGPUPodsAvoid lets them use nodes with devices where they must.
	NonGPUPodsAvoid NonGPUPodPolicy = "Avoid"
	// NonGPUPodsForbid keeps them off nodes with devices. Pods of DaemonSets are
	// exempt.
	NonGPUPodsForbid NonGPUPodPolicy = "Forbid"
	// NonGPUPodsAllow leaves them to the other plugins.
	NonGPUPodsAllow NonGPUPodPolicy = "Allow"
)
