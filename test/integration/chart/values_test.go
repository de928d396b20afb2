// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
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
