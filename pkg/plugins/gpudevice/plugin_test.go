// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
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

// The arguments name the strategies that the model of devices has, in the same order.
func TestStrategies(t *testing.T) {
	var modelled []config.GPUDeviceStrategy
	for _, strategy := range device.Strategies() {
		modelled = append(modelled, config.GPUDeviceStrategy(strategy.String()))
	}
	if diff := cmp.Diff(config.GPUDeviceStrategies(), modelled); diff != "" {
		t.Errorf("strategies in the arguments and in the model (-arguments,+model):\n%s", diff)
	}
	for _, strategy := range config.GPUDeviceStrategies() {
		if _, pl := newProfile(t, gpuArgs(withStrategy(strategy)), schedtest.Options{}); pl.strategy.String() != string(strategy) {
			t.Errorf("%s became %s", strategy, pl.strategy)
		}
	}
}

func TestNewWithoutInformers(t *testing.T) {
	framework, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	must(t, err)
	if _, err := New(t.Context(), gpuArgs(), framework); err == nil {
		t.Error("want an error, got none")
	}
}

func TestSignPod(t *testing.T) {
	daemon := makePod("daemon")
	daemon.OwnerReferences = makeOwner("apps/v1", "DaemonSet")
	forbid := gpuArgs(withNonGPUPods(config.NonGPUPodsForbid))
	tests := []struct {
		name string
		args *config.GPUDeviceArgs
		pod  *corev1.Pod
		// want is the fragment's value as it enters the signature.
		want string
	}{
		{"no device", gpuArgs(), daemon, `{}`},
		{"no device, where that makes a difference", forbid, makePod("p"), `{}`},
		{"a DaemonSet, where that makes a difference", forbid, daemon, `{"daemon":true}`},
		{"a share", gpuArgs(), sharePod("p", 500), `{"request":{"kind":1,"containers":[{"devices":1,"milli":500}]}}`},
		{"a constrained share", gpuArgs(), annotated(annotated(sharePod("p", 500), names.GPUModelAnnotation, "A*"), names.GPUMinMemoryAnnotation, "1Gi"), `{"request":{"kind":1,"containers":[{"devices":1,"milli":500}],"models":"a*","minMemoryMiB":1024}}`},
		{"devices of the device plugin", gpuArgs(), makePod("p", "nvidia.com/gpu", "2"), `{"request":{"kind":2,"containers":[{"devices":2,"milli":1000}]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := newProfile(t, tt.args, schedtest.Options{})
			fragments, status := pl.SignPod(t.Context(), tt.pod)
			if !status.IsSuccess() || len(fragments) != 1 || fragments[0].Key != names.GPUDeviceFragment {
				t.Fatalf("want one fragment, got %v (%v)", fragments, status)
			}
			got, err := json.Marshal(fragments[0].Value)
			must(t, err)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Unexpected fragment (-want,+got):\n%s", diff)
			}
			// One plugin that does not sign would switch batching off.
			if profile.SignPod(t.Context(), tt.pod) == nil {
				t.Error("the profile does not sign the pod")
			}
		})
	}
	profile, _ := newProfile(t, gpuArgs(), schedtest.Options{})
	if signature := profile.SignPod(t.Context(), sharePod("p", 1500)); signature != nil {
		t.Errorf("a malformed share is signed: %s", signature)
	}
}
