// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestLabelPresenceArgsDefaults(t *testing.T) {
	tests := []struct {
		name string
		args *LabelPresenceArgs
		want *LabelPresenceArgs
	}{
		{
			name: "nothing set",
			args: &LabelPresenceArgs{},
			want: &LabelPresenceArgs{DaemonSets: DaemonSetsExempt},
		},
		{
			name: "tenancy with its keys only",
			args: &LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{NodeLabelKey: "a", NamespaceLabelKey: "b"}},
			want: &LabelPresenceArgs{
				DaemonSets: DaemonSetsExempt,
				Tenancy: &LabelPresenceTenancy{
					NodeLabelKey: "a", NamespaceLabelKey: "b",
					Tenants: TenantsConfined, ExemptNamespaces: []string{"kube-system"},
				},
			},
		},
		{
			name: "an empty list of exempt namespaces means none",
			args: &LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{ExemptNamespaces: []string{}}},
			want: &LabelPresenceArgs{
				DaemonSets: DaemonSetsExempt,
				Tenancy:    &LabelPresenceTenancy{Tenants: TenantsConfined, ExemptNamespaces: []string{}},
			},
		},
		{
			name: "what is set stays",
			args: &LabelPresenceArgs{
				DaemonSets: DaemonSetsEnforce,
				Tenancy:    &LabelPresenceTenancy{Tenants: TenantsFree, ExemptNamespaces: []string{"a"}},
			},
			want: &LabelPresenceArgs{
				DaemonSets: DaemonSetsEnforce,
				Tenancy:    &LabelPresenceTenancy{Tenants: TenantsFree, ExemptNamespaces: []string{"a"}},
			},
		},
		{
			name: "what is wrong stays, for validation",
			args: &LabelPresenceArgs{DaemonSets: "exempt", Preferences: []LabelPresencePreference{{}}},
			want: &LabelPresenceArgs{DaemonSets: "exempt", Preferences: []LabelPresencePreference{{}}},
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

// Two objects must not share what a default gave them: whoever changes the one
// would change the other.
func TestLabelPresenceArgsDefaultsAreFresh(t *testing.T) {
	first := &LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{}}
	second := &LabelPresenceArgs{Tenancy: &LabelPresenceTenancy{}}
	SetDefaults_LabelPresenceArgs(first)
	SetDefaults_LabelPresenceArgs(second)

	first.Tenancy.ExemptNamespaces[0] = "changed"
	if diff := cmp.Diff([]string{"kube-system"}, second.Tenancy.ExemptNamespaces); diff != "" {
		t.Errorf("Changing one object changed another (-want,+got):\n%s", diff)
	}
}
