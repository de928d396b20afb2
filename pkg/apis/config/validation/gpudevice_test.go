// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
)

func validGPUDeviceArgs() config.GPUDeviceArgs {
	return config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceFragmentationGradient},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
}

func TestValidateGPUDeviceArgs(t *testing.T) {
	q := resource.MustParse
	tests := []struct {
		name   string
		change func(*config.GPUDeviceArgs)
		want   []reported
	}{
		{name: "valid", change: func(*config.GPUDeviceArgs) {}},
		{name: "no device plugin", change: func(a *config.GPUDeviceArgs) { a.DeviceResources = []string{} }},
		{name: "every kind of class", change: func(a *config.GPUDeviceArgs) {
			a.ExpectedWorkload = []config.GPUDeviceWorkloadClass{
				{Weight: 1},
				{Weight: 1000000, CPU: q("250m"), GPUMilli: 999},
				{Weight: 1, GPUMilli: 1000, GPUModel: "NVIDIA-A100*, l4", GPUMinMemory: q("40Gi")},
				{Weight: 1, GPUMilli: 16000},
				{Weight: 1, GPUMemory: q("1Pi")},
			}
		}},
		{name: "a pool", change: func(a *config.GPUDeviceArgs) { a.Pool = "A100_batch.1" }},
		{
			name:   "a pool that is no value of a label",
			change: func(a *config.GPUDeviceArgs) { a.Pool = "a/b" },
			want:   []reported{{field.ErrorTypeInvalid, "args.pool"}},
		},
		{
			name:   "a pool that is too long for one",
			change: func(a *config.GPUDeviceArgs) { a.Pool = strings.Repeat("a", 64) },
			want:   []reported{{field.ErrorTypeInvalid, "args.pool"}},
		},
		{
			name: "device resources",
			change: func(a *config.GPUDeviceArgs) {
				a.DeviceResources = []string{"", "cpu", "a b/c", "requests.kubernetes.io/x", "berth.dev/gpu-memory", "x.com/gpu", "x.com/gpu"}
			},
			want: []reported{
				{field.ErrorTypeRequired, "args.deviceResources[0]"},
				{field.ErrorTypeInvalid, "args.deviceResources[1]"},
				{field.ErrorTypeInvalid, "args.deviceResources[2]"},
				{field.ErrorTypeInvalid, "args.deviceResources[3]"},
				{field.ErrorTypeInvalid, "args.deviceResources[4]"},
				{field.ErrorTypeDuplicate, "args.deviceResources[6]"},
			},
		},
		{
			name: "node labels",
			change: func(a *config.GPUDeviceArgs) {
				a.NodeLabels = config.GPUDeviceNodeLabels{Count: "a b", Product: "x", Replicas: "x", MIGPrefix: "/"}
			},
			want: []reported{
				{field.ErrorTypeInvalid, "args.nodeLabels.count"},
				{field.ErrorTypeRequired, "args.nodeLabels.memory"},
				{field.ErrorTypeDuplicate, "args.nodeLabels.replicas"},
				{field.ErrorTypeInvalid, "args.nodeLabels.migPrefix"},
			},
		},
		{
			name:   "no prefix of MIG devices, which would be every label",
			change: func(a *config.GPUDeviceArgs) { a.NodeLabels.MIGPrefix = "" },
			want:   []reported{{field.ErrorTypeRequired, "args.nodeLabels.migPrefix"}},
		},
		{
			name:   "a yardstick of the simulator",
			change: func(a *config.GPUDeviceArgs) { a.ScoringStrategy.Type = "Random" },
			want:   []reported{{field.ErrorTypeNotSupported, "args.scoringStrategy.type"}},
		},
		{
			name: "a workload that nobody reads",
			change: func(a *config.GPUDeviceArgs) {
				a.ScoringStrategy.Type = config.GPUDeviceBestFit
				a.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1}}
			},
			want: []reported{{field.ErrorTypeForbidden, "args.expectedWorkload"}},
		},
		{
			name: "too many classes",
			change: func(a *config.GPUDeviceArgs) {
				a.ExpectedWorkload = slices.Repeat([]config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1}}, 129)
			},
			want: []reported{{field.ErrorTypeTooMany, "args.expectedWorkload"}},
		},
		{
			name: "classes",
			change: func(a *config.GPUDeviceArgs) {
				a.ExpectedWorkload = []config.GPUDeviceWorkloadClass{
					{Weight: 0, CPU: q("-1"), GPUMilli: 1500, GPUMemory: q("-1"), GPUMinMemory: q("2Pi"), GPUModel: "a;b"},
					{Weight: 1000001, GPUMilli: -1},
					{Weight: 1, GPUMilli: 17000},
					{Weight: 1, GPUModel: "a", GPUMinMemory: q("1Gi")},
				}
			},
			want: []reported{
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].weight"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].cpu"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].gpuMilli"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].gpuMemory"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].gpuMinMemory"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[0].gpuModel"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[1].weight"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[1].gpuMilli"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[2].gpuMilli"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[3].gpuModel"},
				{field.ErrorTypeInvalid, "args.expectedWorkload[3].gpuMinMemory"},
			},
		},
		{
			name:   "all at once",
			change: func(a *config.GPUDeviceArgs) { *a = config.GPUDeviceArgs{} },
			want: []reported{
				{field.ErrorTypeRequired, "args.nodeLabels.count"},
				{field.ErrorTypeRequired, "args.nodeLabels.memory"},
				{field.ErrorTypeRequired, "args.nodeLabels.product"},
				{field.ErrorTypeRequired, "args.nodeLabels.replicas"},
				{field.ErrorTypeRequired, "args.nodeLabels.migPrefix"},
				{field.ErrorTypeNotSupported, "args.scoringStrategy.type"},
				{field.ErrorTypeNotSupported, "args.nonGPUPods"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := validGPUDeviceArgs()
			tt.change(&args)
			checkReported(t, ValidateGPUDeviceArgs, &args, tt.want)
		})
	}
}

// What a user reads must name the way out.
func TestValidateGPUDeviceArgsMessages(t *testing.T) {
	args := validGPUDeviceArgs()
	args.ScoringStrategy.Type = config.GPUDeviceBestFit
	args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1500}}
	err := ValidateGPUDeviceArgs(field.NewPath("GPUDeviceArgs"), &args)
	checkMessages(t, err, []string{
		"GPUDeviceArgs.expectedWorkload: Forbidden: only strategy FragmentationGradient reads it: set GPUDeviceArgs.scoringStrategy.type to that, or remove the workload",
		"GPUDeviceArgs.expectedWorkload[0].gpuMilli: Invalid value: 1500: must be 1 to 999 for a share, a multiple of 1000 up to 16000 for whole devices, or absent",
	})
}

// The bounds here are those of the model of devices, which this package must not
// import.
func TestBoundsOfTheDeviceModel(t *testing.T) {
	if milliPerDevice != device.MilliPerDevice || maxDevices != device.MaxDevices || maxDeviceMemory != device.MaxMemoryMiB<<20 {
		t.Errorf("package device has %d, %d and %d MiB", device.MilliPerDevice, device.MaxDevices, device.MaxMemoryMiB)
	}
	for list, valid := range map[string]bool{"a": true, "A-1_2.3*, b": true, "a,": false, "a b": false, "ä": false, ",": false} {
		_, err := device.ParseModels(list)
		if got := len(validateModelPatterns(field.NewPath("x"), list)) == 0; got != valid || (err == nil) != valid {
			t.Errorf("%q: valid here %t, in package device %t, want %t", list, got, err == nil, valid)
		}
	}
}
