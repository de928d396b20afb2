// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

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
