// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestGPUDeviceArgsDefaults(t *testing.T) {
	nvidia := GPUDeviceNodeLabels{
		Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
		Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
	}
	mixed := nvidia
	mixed.Memory = "example.com/memory"
	tests := []struct {
		name string
		args *GPUDeviceArgs
		want *GPUDeviceArgs
	}{
		{
			name: "nothing set",
			args: &GPUDeviceArgs{},
			want: &GPUDeviceArgs{
				DeviceResources: []string{"nvidia.com/gpu"}, NodeLabels: nvidia,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: GPUDeviceFragmentationGradient}, NonGPUPods: NonGPUPodsAvoid,
			},
		},
		{
			name: "an empty list of device resources means none",
			args: &GPUDeviceArgs{DeviceResources: []string{}},
			want: &GPUDeviceArgs{
				DeviceResources: []string{}, NodeLabels: nvidia,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: GPUDeviceFragmentationGradient}, NonGPUPods: NonGPUPodsAvoid,
			},
		},
		{
			name: "what is set stays, also if it is wrong",
			args: &GPUDeviceArgs{
				DeviceResources: []string{"amd.com/gpu"}, NodeLabels: GPUDeviceNodeLabels{Memory: "example.com/memory"},
				ScoringStrategy: GPUDeviceScoringStrategy{Type: "random"}, NonGPUPods: "never",
			},
			want: &GPUDeviceArgs{
				DeviceResources: []string{"amd.com/gpu"}, NodeLabels: mixed,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: "random"}, NonGPUPods: "never",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := AddToScheme(scheme); err != nil {
				t.Fatalf("AddToScheme: %v", err)
			}
			got := tt.args.DeepCopy()
			scheme.Default(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected defaults (-want,+got):\n%s", diff)
			}
		})
	}
}

// Two objects must not share what a default gave them.
func TestGPUDeviceArgsDefaultsAreFresh(t *testing.T) {
	first, second := &GPUDeviceArgs{}, &GPUDeviceArgs{}
	SetDefaults_GPUDeviceArgs(first)
	SetDefaults_GPUDeviceArgs(second)
	first.DeviceResources[0] = "changed"
	if diff := cmp.Diff([]string{"nvidia.com/gpu"}, second.DeviceResources); diff != "" {
		t.Errorf("Changing one object changed another (-want,+got):\n%s", diff)
	}
}
