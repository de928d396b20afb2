// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// The kustomizations and the chart put together the same files. That they come to the same
// objects, field by field, is what keeps the two from drifting apart.
func TestOverlaysAreReleases(t *testing.T) {
	h := newHelm(t, "4", "")
	single := values{"replicas": 1, "priorityClass": values{"create": false}, "networkPolicy": values{"create": false}}
	pair := values{"networkPolicy": values{"create": false}}
	tenants := values{"profile": names.TenancyScheduler}
	// The base has every plugin on, and leaves the policies of shares to overlays/gpu; it
	// brings Colocation's policy to all of them.
	tests := []struct {
		dir      string
		features []string
		policies []any
		more     []values
	}{
		{"base", []string{"labelPresence", "gpu", "colocation"}, []any{"colocation"}, []values{single}},
		{"overlays/ha", []string{"labelPresence", "gpu", "colocation"}, []any{"colocation"}, []values{pair}},
		{"overlays/gpu", []string{"gpu", "colocation"}, []any{"gpu", "colocation"}, []values{single}},
		{"overlays/gpu-gang", []string{"gpu", "gang", "colocation"}, []any{"gpu", "colocation"}, []values{single, {"gang": values{"by": "Coscheduling"}}}},
		{"overlays/tenancy", []string{"tenancy", "colocation"}, []any{"tenancy", "colocation"}, []values{single, tenants}},
		{"overlays/ha-tenancy", []string{"tenancy", "colocation"}, []any{"tenancy", "colocation"}, []values{pair, tenants}},
	}
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			v := features(tt.features...)
			v["policies"] = values{"create": tt.policies}
			for _, more := range tt.more {
				maps.Copy(v, more)
			}
			got := withoutIntended(t, h.render(t, names.Scheduler, names.Namespace, v))
			want := withoutIntended(t, decode(t, yamlOf(t, tt.dir)))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kubectl kustomize manifests/%s is not what helm template says (-kustomize,+chart):\n%s", tt.dir, diff)
			}
		})
	}
}

func yamlOf(t *testing.T, dir string) string {
	t.Helper()
	content, err := install.Build(t, install.Path("manifests", dir)).AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// withoutIntended returns objects by kind and name without what differs on purpose: labels and
// selectors, which tell releases apart; the namespace, which Helm is told; and the
// ConfigMap, whose profile TestProfilesAreTheDocumentedOnes compares.
func withoutIntended(t *testing.T, objects []unstructured.Unstructured) map[string]any {
	t.Helper()
	all := map[string]any{}
	for i := range objects {
		o := objects[i].DeepCopy()
		switch o.GetKind() {
		case "Namespace", "ConfigMap":
			continue
		case "Deployment":
			for _, path := range [][]string{{"spec", "selector"}, {"spec", "template", "metadata"}, {"spec", "template", "spec", "volumes"}} {
				unstructured.RemoveNestedField(o.Object, path...)
			}
			spreads, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "topologySpreadConstraints")
			for _, spread := range spreads {
				delete(spread.(map[string]any), "labelSelector")
			}
			if spreads != nil {
				if err := unstructured.SetNestedSlice(o.Object, spreads, "spec", "template", "spec", "topologySpreadConstraints"); err != nil {
					t.Fatal(err)
				}
			}
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			delete(containers[0].(map[string]any), "args")
			delete(containers[0].(map[string]any), "imagePullPolicy")
			if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
				t.Fatal(err)
			}
		case "PodDisruptionBudget":
			unstructured.RemoveNestedField(o.Object, "spec", "selector")
		}
		if o.GetKind() == "ClusterRoleBinding" && o.GetName() == "berth:gpu-pool" {
			// The manifests hold the pool whatever their profile, a release only with features.gpu.
			o.SetName(names.Scheduler)
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "labels")
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "helm.sh/resource-policy")
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		text := asJSON(t, *o)
		// The profile's file, by which components/tenancy knows the Deployment.
		text = strings.ReplaceAll(text, "/etc/berth-scheduler/profile.yaml", "/etc/berth-scheduler/tenancy.yaml")
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		all[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = value
	}
	return all
}

func asJSON(t *testing.T, o unstructured.Unstructured) string {
	t.Helper()
	content, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
