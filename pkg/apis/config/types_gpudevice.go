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

	DeviceResources         []string
	Pool                    string
	NodeLabels              GPUDeviceNodeLabels
	ScoringStrategy         GPUDeviceScoringStrategy
	ExpectedWorkload        []GPUDeviceWorkloadClass
	NonGPUPods              NonGPUPodPolicy
	NodeAndNamespaceMetrics bool
}

// GPUDeviceNodeLabels are label keys. The defaults are those that NVIDIA's GPU
// feature discovery writes.
type GPUDeviceNodeLabels struct {
	Count     string
	Memory    string
	Product   string
	Replicas  string
	MIGPrefix string
}

// GPUDeviceScoringStrategy says how nodes and devices are chosen.
type GPUDeviceScoringStrategy struct {
	Type GPUDeviceStrategy
}

// GPUDeviceWorkloadClass is a kind of pod that is expected, and how often, in
// the units in which a pod asks for devices.
type GPUDeviceWorkloadClass struct {
	Weight       int64
	CPU          resource.Quantity
	GPUMilli     int64
	GPUMemory    resource.Quantity
	GPUModel     string
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

// GPUDeviceStrategies returns all strategies.
func GPUDeviceStrategies() []GPUDeviceStrategy {
	return []GPUDeviceStrategy{GPUDeviceFragmentationGradient, GPUDeviceBestFit, GPUDeviceMostAllocated, GPUDeviceLeastAllocated}
}

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
