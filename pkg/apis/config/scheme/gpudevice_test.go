// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// gpuProfileHeader enables the plugin; its arguments may follow.
const gpuProfileHeader = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint: {enabled: [{name: GPUDevice}]}
`

func TestDecodeGPUDeviceArgs(t *testing.T) {
	defaults := config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceFragmentationGradient},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
	full := config.GPUDeviceArgs{
		DeviceResources: []string{"amd.com/gpu"},
		NodeLabels:      config.GPUDeviceNodeLabels{Count: "a", Memory: "b", Product: "c", Replicas: "d", MIGPrefix: "e-"},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceBestFit},
		ExpectedWorkload: []config.GPUDeviceWorkloadClass{{
			Weight: 3, CPU: resource.MustParse("1500m"), GPUMilli: 500, GPUMemory: resource.MustParse("10Gi"),
			GPUModel: "A*", GPUMinMemory: resource.MustParse("40Gi"),
		}},
		NonGPUPods: config.NonGPUPodsForbid,
	}
	tests := []struct {
		name string
		text string
		want *config.GPUDeviceArgs
	}{
		{name: "defaults without pluginConfig", text: gpuProfileHeader, want: &defaults},
		{
			name: "every field",
			text: gpuProfileHeader + `
  pluginConfig:
  - name: GPUDevice
    args:
      deviceResources: [amd.com/gpu]
      nodeLabels: {count: a, memory: b, product: c, replicas: d, migPrefix: e-}
      scoringStrategy: {type: BestFit}
      expectedWorkload:
      - {weight: 3, cpu: 1500m, gpuMilli: 500, gpuMemory: 10Gi, gpuModel: A*, gpuMinMemory: 40Gi}
      nonGPUPods: Forbid
`,
			want: &full,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := decode(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			for _, plugin := range cfg.Profiles[0].PluginConfig {
				if plugin.Name != "GPUDevice" {
					continue
				}
				if diff := cmp.Diff(runtime.Object(tt.want), plugin.Args); diff != "" {
					t.Errorf("Unexpected args (-want,+got):\n%s", diff)
				}
				return
			}
			t.Error("the profile has no args for GPUDevice")
		})
	}
}

func TestDecodeGPUDeviceArgsIsStrict(t *testing.T) {
	for args, want := range map[string]string{
		`{scoringStrategy: {kind: BestFit}}`:                  `unknown field "scoringStrategy.kind"`,
		`{expectedWorkload: [{weight: 1, milli: 500}]}`:       `unknown field "expectedWorkload[0].milli"`,
		`{expectedWorkload: [{weight: 1, gpuMemory: 10 GB}]}`: "quantities must match",
		`{nonGpuPods: Avoid}`:                                 `unknown field "nonGpuPods"`,
	} {
		_, err := decode(gpuProfileHeader + "  pluginConfig:\n  - name: GPUDevice\n    args: " + args + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in the error, got: %v", args, want, err)
		}
	}
}

// What is written out, for example on /configz, means the same when it is read
// again.
func TestGPUDeviceArgsRoundTrip(t *testing.T) {
	args := &configv1.GPUDeviceArgs{
		DeviceResources: []string{}, // none, and not the default
		NodeLabels:      configv1.GPUDeviceNodeLabels{Count: "a", Memory: "b", Product: "c", Replicas: "d", MIGPrefix: "e-"},
		ScoringStrategy: configv1.GPUDeviceScoringStrategy{Type: configv1.GPUDeviceFragmentationGradient},
		ExpectedWorkload: []configv1.GPUDeviceWorkloadClass{
			{Weight: 3, CPU: resource.MustParse("1500m"), GPUMemory: resource.MustParse("10Gi")},
			{Weight: 1, GPUMilli: 8000, GPUModel: "A*", GPUMinMemory: resource.MustParse("40Gi")},
		},
		NonGPUPods: configv1.NonGPUPodsAllow,
	}
	args.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("GPUDeviceArgs"))
	written, err := yaml.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	internal, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode(written, nil, nil)
	if err != nil {
		t.Fatalf("decoding %s: %v", written, err)
	}
	got, err := schedulerscheme.Scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runtime.Object(args), got); diff != "" {
		t.Errorf("Unexpected args after a round trip through\n%s(-want,+got):\n%s", written, diff)
	}
}
