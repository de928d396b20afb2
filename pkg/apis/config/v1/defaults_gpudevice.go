// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// SetDefaults_GPUDeviceArgs fills what is missing and leaves the rest alone;
// what is wrong is for validation. Every value is fresh, so that no two objects
// share memory.
func SetDefaults_GPUDeviceArgs(obj *GPUDeviceArgs) {
	if obj.DeviceResources == nil {
		obj.DeviceResources = []string{"nvidia.com/gpu"}
	}
	labels := &obj.NodeLabels
	setDefault(&labels.Count, "nvidia.com/gpu.count")
	setDefault(&labels.Memory, "nvidia.com/gpu.memory")
	setDefault(&labels.Product, "nvidia.com/gpu.product")
	setDefault(&labels.Replicas, "nvidia.com/gpu.replicas")
	setDefault(&labels.MIGPrefix, "nvidia.com/mig-")
	setDefault(&obj.ScoringStrategy.Type, GPUDeviceFragmentationGradient)
	setDefault(&obj.NonGPUPods, NonGPUPodsAvoid)
}

// setDefault sets a value that is empty.
func setDefault[T ~string](value *T, byDefault T) {
	if *value == "" {
		*value = byDefault
	}
}
