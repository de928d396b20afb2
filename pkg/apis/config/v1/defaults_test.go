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

// TestWrongArgsGetNoDefaults: what is set stays, also if it is wrong: validation has to see it.
// What does get defaults is in testdata of package scheme.
func TestWrongArgsGetNoDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatalf("AddToScheme: %v", err)
	}
	for _, args := range []runtime.Object{
		&LabelPresenceArgs{DaemonSets: "exempt", Preferences: []LabelPresencePreference{{}}},
		&ColocationArgs{
			TopologyKeys: []string{},
			Rules:        []ColocationRule{{Services: []ColocationService{{Weight: ptr.To[int32](0)}}, Weight: ptr.To[int32](0)}},
		},
	} {
		got := args.DeepCopyObject()
		scheme.Default(got)
		if diff := cmp.Diff(args, got); diff != "" {
			t.Errorf("Unexpected defaults (-want,+got):\n%s", diff)
		}
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
