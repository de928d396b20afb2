// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			want: []string{"want args of type *config.LabelPresenceArgs, got <nil>"},
		},
		{
			name: "args of another plugin",
			args: &schedulerconfig.NodeAffinityArgs{},
			want: []string{"want args of type *config.LabelPresenceArgs, got *config.NodeAffinityArgs"},
		},
		{
			name: "several errors at once, each with its field",
			args: &config.LabelPresenceArgs{
				Rules:      []config.LabelPresenceRule{{Labels: []string{"a b"}}},
				DaemonSets: "Sometimes",
			},
			want: []string{
				`LabelPresenceArgs.rules[0].labels[0]: Invalid value: "a b"`,
				`LabelPresenceArgs.rules[0].presence: Required value`,
				`LabelPresenceArgs.daemonSets: Unsupported value: "Sometimes": supported values: "Exempt", "Enforce"`,
			},
		},
		{
			name: "nothing to do",
			args: &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt},
			want: []string{"LabelPresenceArgs: Required value: set at least one of rules, preferences and tenancy"},
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

// Where no namespace matters, none is watched: that would be one more watch, and
// a right that the scheduler may lack.
func TestNewWatchesNamespacesOnlyWhereTheyMatter(t *testing.T) {
	tests := []struct {
		name string
		args config.LabelPresenceArgs
		want bool
	}{
		{name: "rules", args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}}},
		{name: "preferences", args: config.LabelPresenceArgs{Preferences: []config.LabelPresencePreference{{Label: "a", Presence: new(true), Weight: 1}}}},
		{
			name: "a namespaceSelector that matches all",
			args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{{
				Labels: []string{"a"}, Presence: new(true), NamespaceSelector: &metav1.LabelSelector{},
			}}},
		},
		{name: "namespaceSelector", args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x")}}, want: true},
		{name: "tenancy", args: config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile := startProfile(t, &tt.args, schedtest.Options{})
			got := false
			for _, action := range profile.Client.Actions() {
				got = got || action.GetResource().Resource == "namespaces"
			}
			if got != tt.want {
				t.Errorf("namespaces listed or watched: want %t, got %t", tt.want, got)
			}
		})
	}
}

func TestNewWithoutInformers(t *testing.T) {
	framework, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree), DaemonSets: config.DaemonSetsExempt}
	if _, err := New(t.Context(), args, framework); err == nil {
		t.Error("want an error, got none")
	}
}
