// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// defaultLevels are the topologyKeys of Colocation's arguments that name none.
var defaultLevels = []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}

func TestDefaults(t *testing.T) {
	nvidia := GPUDeviceNodeLabels{
		Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
		Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
	}
	mixed := nvidia
	mixed.Memory = "example.com/memory"
	// What is set stays, also if it is wrong: validation has to see it.
	wrongPresence := &LabelPresenceArgs{DaemonSets: "exempt", Preferences: []LabelPresencePreference{{}}}
	wrongColocation := &ColocationArgs{
		TopologyKeys: []string{},
		Rules:        []ColocationRule{{Services: []ColocationService{{Weight: ptr.To[int32](0)}}, Weight: ptr.To[int32](0)}},
	}
	setPresence := &LabelPresenceArgs{
		DaemonSets: DaemonSetsEnforce,
		Tenancy:    &LabelPresenceTenancy{Tenants: TenantsFree, ExemptNamespaces: []string{"a"}},
	}
	tests := []struct {
		name       string
		args, want runtime.Object
	}{
		{"LabelPresence, nothing set", &LabelPresenceArgs{}, &LabelPresenceArgs{DaemonSets: DaemonSetsExempt}},
		{
			"LabelPresence, tenancy with its keys only",
			&LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{NodeLabelKey: "a", NamespaceLabelKey: "b"}},
			&LabelPresenceArgs{
				DaemonSets: DaemonSetsExempt,
				Tenancy: &LabelPresenceTenancy{
					NodeLabelKey: "a", NamespaceLabelKey: "b",
					Tenants: TenantsConfined, ExemptNamespaces: []string{"kube-system"},
				},
			},
		},
		{
			"LabelPresence, an empty list of exempt namespaces means none",
			&LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{ExemptNamespaces: []string{}}},
			&LabelPresenceArgs{
				DaemonSets: DaemonSetsExempt,
				Tenancy:    &LabelPresenceTenancy{Tenants: TenantsConfined, ExemptNamespaces: []string{}},
			},
		},
		{"LabelPresence, all set", setPresence, setPresence},
		{"LabelPresence, wrong", wrongPresence, wrongPresence},
		{"Colocation, nothing set", &ColocationArgs{}, &ColocationArgs{TopologyKeys: defaultLevels}},
		{
			"Colocation, weights, where they are missing",
			&ColocationArgs{Rules: []ColocationRule{
				{Services: []ColocationService{{Name: "a"}, {Name: "b", Weight: ptr.To[int32](7)}}},
				{Weight: ptr.To[int32](5)},
			}},
			&ColocationArgs{
				TopologyKeys: defaultLevels,
				Rules: []ColocationRule{
					{Services: []ColocationService{{Name: "a", Weight: ptr.To[int32](1)}, {Name: "b", Weight: ptr.To[int32](7)}}, Weight: ptr.To[int32](1)},
					{Weight: ptr.To[int32](5)},
				},
			},
		},
		{"Colocation, wrong", wrongColocation, wrongColocation},
		{
			"GPUDevice, nothing set",
			&GPUDeviceArgs{},
			&GPUDeviceArgs{
				DeviceResources: []string{"nvidia.com/gpu"}, NodeLabels: nvidia,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: GPUDeviceFragmentationGradient}, NonGPUPods: NonGPUPodsAvoid,
			},
		},
		{
			"GPUDevice, an empty list of device resources means none",
			&GPUDeviceArgs{DeviceResources: []string{}},
			&GPUDeviceArgs{
				DeviceResources: []string{}, NodeLabels: nvidia,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: GPUDeviceFragmentationGradient}, NonGPUPods: NonGPUPodsAvoid,
			},
		},
		{
			"GPUDevice, one node label set, and what is wrong",
			&GPUDeviceArgs{
				DeviceResources: []string{"amd.com/gpu"}, NodeLabels: GPUDeviceNodeLabels{Memory: "example.com/memory"},
				ScoringStrategy: GPUDeviceScoringStrategy{Type: "random"}, NonGPUPods: "never",
			},
			&GPUDeviceArgs{
				DeviceResources: []string{"amd.com/gpu"}, NodeLabels: mixed,
				ScoringStrategy: GPUDeviceScoringStrategy{Type: "random"}, NonGPUPods: "never",
			},
		},
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatalf("AddToScheme: %v", err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.args.DeepCopyObject()
			scheme.Default(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected defaults (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestDefaultsAreFresh: two objects must not share what a default gave them. Whoever
// changes the one would change the other.
func TestDefaultsAreFresh(t *testing.T) {
	var presence [2]LabelPresenceArgs
	var colocation [2]ColocationArgs
	var gpu [2]GPUDeviceArgs
	for i := range 2 {
		presence[i].Tenancy, colocation[i].Rules = &LabelPresenceTenancy{}, []ColocationRule{{}}
		SetDefaults_LabelPresenceArgs(&presence[i])
		SetDefaults_ColocationArgs(&colocation[i])
		SetDefaults_GPUDeviceArgs(&gpu[i])
	}
	presence[0].Tenancy.ExemptNamespaces[0] = "changed"
	colocation[0].TopologyKeys[0], *colocation[0].Rules[0].Weight = "changed", 50
	gpu[0].DeviceResources[0] = "changed"

	got := []any{presence[1].Tenancy.ExemptNamespaces, colocation[1].TopologyKeys, *colocation[1].Rules[0].Weight, gpu[1].DeviceResources}
	want := []any{[]string{"kube-system"}, defaultLevels, int32(1), []string{"nvidia.com/gpu"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Changing one object changed another (-want,+got):\n%s", diff)
	}
}
