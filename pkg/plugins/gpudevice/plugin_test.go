// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		args runtime.Object
		want []string
	}{
		{
			name: "no args",
			want: []string{"want args of type *config.GPUDeviceArgs, got <nil>"},
		},
		{
			name: "args of another plugin",
			args: &schedulerconfig.NodeAffinityArgs{},
			want: []string{"want args of type *config.GPUDeviceArgs, got *config.NodeAffinityArgs"},
		},
		{
			name: "several errors at once, each with its field",
			args: gpuArgs(func(args *config.GPUDeviceArgs) {
				args.NodeLabels.Count = ""
				args.NonGPUPods = "Never"
				args.ScoringStrategy.Type = "Best"
			}),
			want: []string{
				"GPUDeviceArgs.nodeLabels.count: Required value",
				`GPUDeviceArgs.nonGPUPods: Unsupported value: "Never": supported values: "Avoid", "Forbid", "Allow"`,
				`GPUDeviceArgs.scoringStrategy.type: Unsupported value: "Best"`,
			},
		},
		{
			name: "a workload with a spare comma",
			args: gpuArgs(func(args *config.GPUDeviceArgs) {
				args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 500, GPUModel: "a,,b"}}
			}),
			want: []string{"GPUDeviceArgs.expectedWorkload[0].gpuModel: Invalid value"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schedtest.NewProfile(t.Context(), t, Name, New, tt.args, schedtest.Options{})
			if err == nil {
				t.Fatal("want an error, got none")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in the error, got: %v", want, err)
				}
			}
		})
	}
}

// Every strategy that the arguments name is one that the model of devices has.
func TestStrategies(t *testing.T) {
	for _, strategy := range []config.GPUDeviceStrategy{
		config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit, config.GPUDeviceMostAllocated,
		config.GPUDeviceLeastAllocated,
	} {
		if _, pl := newProfile(t, gpuArgs(withStrategy(strategy)), schedtest.Options{}); pl.strategy.String() != string(strategy) {
			t.Errorf("%s became %s", strategy, pl.strategy)
		}
	}
}

func TestNewWithoutInformers(t *testing.T) {
	framework, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), gpuArgs(), framework); err == nil {
		t.Error("want an error, got none")
	}
}
