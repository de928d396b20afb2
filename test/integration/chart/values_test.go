// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What cannot work is refused before anything is installed, by the name of the value.
func TestRefusedValues(t *testing.T) {
	tests := []struct {
		name   string
		values values
		want   string
	}{
		{name: "a misspelt feature", values: values{"features": values{"gpus": true}}, want: "gpus"},
		{name: "a misspelt value", values: values{"replica": 1}, want: "replica"},
		{name: "no replica", values: values{"replicas": 0}, want: "replicas"},
		{name: "a namespace that cannot be", values: values{"exemptNamespaces": []any{"Kube System"}}, want: "exemptNamespaces"},
		{name: "tenancy under a name that anybody may serve", values: values{"profile": "berth", "features": values{"tenancy": true}}, want: `profile: is "berth", must end in "-tenancy"`},
		{name: "the name of tenancy without it", values: values{"profile": "berth-tenancy"}, want: `must not end in "-tenancy"`},
		{name: "tenancy beside its feature", values: values{"labelPresence": values{"args": values{"tenancy": values{}}}}, want: "tenancy"},
		{name: "a second --config", values: values{"extraArgs": []any{"--config=x"}}, want: "extraArgs"},
		{name: "a tenant whom nobody assigns", values: values{"tenancy": values{"tenants": []any{values{"name": "a"}}}}, want: "assigners"},
		{
			name: "a ServiceAccount without namespace",
			values: values{
				"features": values{"tenancy": true},
				"tenancy":  values{"tenants": []any{values{"name": "a", "assigners": []any{values{"kind": "ServiceAccount", "name": "x"}}}}},
			},
			want: "tenancy.tenants[].assigners[].namespace: Required value",
		},
	}
	for _, major := range []string{"3", "4"} {
		h := newHelm(t, major, "")
		for _, tt := range tests {
			t.Run("Helm "+major+"/"+tt.name, func(t *testing.T) {
				if _, err := h.template(t, "x", "ns", tt.values); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("want an error with %q, got %v", tt.want, err)
				}
			})
		}
	}
}

// What nodes ask of pods, and the registry of images, is the same for all pods of a release.
func TestPodsOfARelease(t *testing.T) {
	t.Parallel()
	v := features("randomScheduler")
	v["nodeSelector"] = values{"pool": "system"}
	v["tolerations"] = []any{values{"key": "pool", "operator": "Exists"}}
	v["imagePullSecrets"] = []any{values{"name": "registry"}}
	v["image"] = values{"pullPolicy": "Never"}
	objects := newHelm(t, "4", "").render(t, "one", "berth-one", v)
	for _, name := range []string{"one", "one-random"} {
		pod := find(t, objects, "Deployment", name).Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		pod["imagePullPolicy"] = pod["containers"].([]any)[0].(map[string]any)["imagePullPolicy"]
		want := map[string]any{
			"nodeSelector":     map[string]any{"pool": "system"},
			"tolerations":      []any{map[string]any{"key": "pool", "operator": "Exists"}},
			"imagePullSecrets": []any{map[string]any{"name": "registry"}},
			"imagePullPolicy":  "Never",
		}
		for field := range pod {
			if _, ok := want[field]; !ok {
				delete(pod, field)
			}
		}
		if diff := cmp.Diff(want, pod); diff != "" {
			t.Errorf("Unexpected pods of Deployment %s (-want,+got):\n%s", name, diff)
		}
	}
}

// Both versions render the same.
func TestVersionsAgree(t *testing.T) {
	v := features(append([]string{"randomScheduler"}, combined...)...)
	count := 0
	three := map[string]string{}
	for _, o := range newHelm(t, "3", "").render(t, "x", "ns", v) {
		three[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = asJSON(t, o)
	}
	for _, o := range newHelm(t, "4", "").render(t, "x", "ns", v) {
		count++
		if key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName(); three[key] != asJSON(t, o) {
			t.Errorf("%s differs:\n%s\n%s", key, three[key], asJSON(t, o))
		}
	}
	if count != len(three) || count < 40 {
		t.Errorf("Helm 4 renders %d objects, Helm 3 %d", count, len(three))
	}
}
