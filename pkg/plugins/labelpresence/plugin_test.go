// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

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

func TestSignPod(t *testing.T) {
	rules := []config.LabelPresenceRule{
		makeRule(true, "a"),
		forPods(makeRule(true, "b"), "web"),
		inNamespaces(forPods(makeRule(true, "c"), "db"), "x"),
	}
	tests := []struct {
		name string
		args config.LabelPresenceArgs
		pod  *corev1.Pod
		// want is the fragment's value as it enters the signature.
		want string
	}{
		{
			name: "rules by index",
			args: config.LabelPresenceArgs{Rules: rules},
			pod:  st.MakePod().Namespace("ns").Label("app", "web").Label("other", "x").Obj(),
			want: `{"rules":[0,1]}`,
		},
		{
			name: "a namespace where a rule asks for its labels",
			args: config.LabelPresenceArgs{Rules: rules},
			pod:  st.MakePod().Namespace("ns").Label("app", "db").Obj(),
			want: `{"rules":[0,2],"namespace":"ns"}`,
		},
		{
			name: "a daemon pod, for which no rule counts",
			args: config.LabelPresenceArgs{Rules: rules},
			pod:  makeDaemonPod("ns", "p", "n").Label("app", "db").Obj(),
			want: `{}`,
		},
		{
			name: "a daemon pod, where rules are enforced",
			args: config.LabelPresenceArgs{Rules: rules, DaemonSets: config.DaemonSetsEnforce},
			pod:  makeDaemonPod("ns", "p", "n").Obj(),
			want: `{"rules":[0]}`,
		},
		{
			name: "tenancy",
			args: config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined, "kube-system")},
			pod:  st.MakePod().Namespace("ns").Obj(),
			want: `{"namespace":"ns"}`,
		},
		{
			name: "tenancy, exempt namespace",
			args: config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined, "kube-system")},
			pod:  st.MakePod().Namespace("kube-system").Obj(),
			want: `{}`,
		},
		{
			name: "preferences read nothing of the pod",
			args: config.LabelPresenceArgs{Preferences: []config.LabelPresencePreference{{Label: "a", Presence: new(true), Weight: 1}}},
			pod:  st.MakePod().Namespace("ns").Label("app", "web").Obj(),
			want: `{}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile := newProfile(t, &tt.args, schedtest.Options{})
			fragments, status := profile.Plugin.(*LabelPresence).SignPod(t.Context(), tt.pod)
			if !status.IsSuccess() || len(fragments) != 1 {
				t.Fatalf("want one fragment, got %v (%v)", fragments, status)
			}
			if got, want := fragments[0].Key, names.LabelPresenceFragment; got != want {
				t.Errorf("want key %q, got %q", want, got)
			}
			got, err := json.Marshal(fragments[0].Value)
			if err != nil {
				t.Fatalf("encoding the fragment: %v", err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Unexpected fragment (-want,+got):\n%s", diff)
			}
			// One plugin that does not sign would switch batching off.
			if profile.SignPod(t.Context(), tt.pod) == nil {
				t.Error("the profile does not sign the pod")
			}
		})
	}
}

func TestRejectionsAreCountedByRule(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{makeRule(true, "a"), makeRule(false, "b", "c")},
		Tenancy: makeTenancy(config.TenantsFree),
	}
	profile := startProfile(t, args, schedtest.Options{
		Name: t.Name(),
		Nodes: []*corev1.Node{
			makeNode("passes", map[string]string{"a": ""}),
			makeNode("breaks-rule-0", nil),
			makeNode("breaks-rule-0-and-1", map[string]string{"b": ""}),
			makeNode("breaks-rule-1", map[string]string{"a": "", "c": ""}),
			makeNode("breaks-tenancy", map[string]string{nodeTenantKey: "red"}),
		},
		Namespaces: []*corev1.Namespace{makeNamespace("ns", "1", nil)},
	})
	for range 2 {
		if _, status := profile.Filter(t.Context(), t, podIn("ns")); !status.IsSuccess() {
			t.Fatalf("PreFilter: %v", status)
		}
	}
	got := map[string]float64{}
	for _, rule := range []string{"rules[0]", "rules[1]", "tenancy"} {
		value, err := testutil.GetCounterMetricValue(nodeRejections.WithLabelValues(t.Name(), rule))
		if err != nil {
			t.Fatal(err)
		}
		got[rule] = value
	}
	want := map[string]float64{"rules[0]": 4, "rules[1]": 2, "tenancy": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected counts (-want,+got):\n%s", diff)
	}
}

// kube-scheduler serves what is in the legacy registry.
func TestMetricsAreServed(t *testing.T) {
	newProfile(t, &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree)}, schedtest.Options{Name: t.Name()})
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, family := range families {
		got[family.GetName()] = true
	}
	for _, name := range []string{"berth_labelpresence_node_rejections_total", "berth_labelpresence_tenancy_violations"} {
		if !got[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
