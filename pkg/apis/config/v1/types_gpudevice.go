// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// GPUDeviceArgs configures the GPUDevice plugin: how nodes describe their
// devices, how nodes and devices are chosen, and what becomes of pods that ask
// for none.
type GPUDeviceArgs struct {
	metav1.TypeMeta `json:",inline"`

	// DeviceResources are the extended resources that vendors' device plugins
	// advertise, each a whole device. They are counted by NodeResourcesFit; here
	// they are constrained by model and memory, and scored. Empty: none is.
	// Default, when absent: [nvidia.com/gpu]. An empty list means none, which is
	// why it must survive encoding.
	// +optional
	// +listType=atomic
	DeviceResources []string `json:"deviceResources,omitzero"`
	// Pool is the GPU pool that the scheduler serves: it shares the devices of nodes with
	// this value in label berth.dev/gpu-pool, and of no others. Of several scheduler
	// instances in a cluster each needs a pool of its own; the profiles of one must
	// name the same. Default: empty, the nodes without that label.
	// +optional
	Pool string `json:"pool,omitempty"`
	// NodeLabels are the labels in which nodes describe their devices.
	// +optional
	NodeLabels GPUDeviceNodeLabels `json:"nodeLabels,omitzero"`
	// ScoringStrategy says by what nodes are scored, and by what a share is given
	// one device of its node.
	// +optional
	ScoringStrategy GPUDeviceScoringStrategy `json:"scoringStrategy,omitzero"`
	// ExpectedWorkload is what the strategy FragmentationGradient keeps devices free
	// for. Empty: it is learned from the pods that ask for devices. It must be empty
	// with any other strategy.
	// +optional
	// +listType=atomic
	ExpectedWorkload []GPUDeviceWorkloadClass `json:"expectedWorkload,omitempty"`
	// NonGPUPods says what becomes of pods that ask for no device.
	// Default: Avoid.
	// +optional
	NonGPUPods NonGPUPodPolicy `json:"nonGPUPods,omitempty"`
	// NodeAndNamespaceMetrics adds metrics of what is held of devices by node and by
	// namespace: at most 1,000 nodes and 200 namespaces, the first by name; the rest
	// are summed up as "other". Default: false.
	// +optional
	NodeAndNamespaceMetrics bool `json:"nodeAndNamespaceMetrics,omitempty"`
}

// GPUDeviceNodeLabels are label keys. The defaults are those that NVIDIA's GPU
// feature discovery writes.
type GPUDeviceNodeLabels struct {
	// Count is the label with the number of devices.
	// Default: nvidia.com/gpu.count.
	// +optional
	Count string `json:"count,omitempty"`
	// Memory is the label with the memory of each device, in MiB.
	// Default: nvidia.com/gpu.memory.
	// +optional
	Memory string `json:"memory,omitempty"`
	// Product is the label with the model of all devices.
	// Default: nvidia.com/gpu.product.
	// +optional
	Product string `json:"product,omitempty"`
	// Replicas is the label with the number of time-slicing replicas of a device;
	// above 1 a node takes no shares. Default: nvidia.com/gpu.replicas.
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// MIGPrefix is how labels and resources of MIG devices start; a node with
	// one takes no shares. Default: nvidia.com/mig-.
	// +optional
	MIGPrefix string `json:"migPrefix,omitempty"`
}

// GPUDeviceScoringStrategy says how nodes and devices are chosen.
type GPUDeviceScoringStrategy struct {
	// Type is the strategy. Default: FragmentationGradient.
	// +optional
	Type GPUDeviceStrategy `json:"type,omitempty"`
}

// GPUDeviceWorkloadClass is a kind of pod that is expected, and how often, in
// the units in which a pod asks for devices.
type GPUDeviceWorkloadClass struct {
	// Weight is the frequency of the class beside the others, 1 to 1000000.
	// Required.
	Weight int64 `json:"weight"`
	// CPU is what the pod requests. Default: 0.
	// +optional
	CPU resource.Quantity `json:"cpu,omitzero"`
	// GPUMilli is as the limit berth.dev/gpu-milli of a container: 1 to 999 for a
	// share, k times 1000 for k whole devices. 0: derived from GPUMemory; if both
	// are 0, the class asks for no device.
	// +optional
	GPUMilli int64 `json:"gpuMilli,omitempty"`
	// GPUMemory is as the limit berth.dev/gpu-memory of a container.
	// 0: derived from GPUMilli.
	// +optional
	GPUMemory resource.Quantity `json:"gpuMemory,omitzero"`
	// GPUModel is as the pod annotation berth.dev/gpu-model. Empty: any model.
	// +optional
	GPUModel string `json:"gpuModel,omitempty"`
	// GPUMinMemory is as the pod annotation berth.dev/gpu-min-memory.
	// 0: no minimum.
	// +optional
	GPUMinMemory resource.Quantity `json:"gpuMinMemory,omitzero"`
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
