// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// What cannot work is refused before anything is installed, by the name of the value.
func TestRefusedValues(t *testing.T) {
	tests := []struct {
		name   string
		values values
		want   string
	}{
		{name: "a misspelled feature", values: values{"features": values{"gpus": true}}, want: "gpus"},
		{name: "a misspelled value", values: values{"replica": 1}, want: "replica"},
		{name: "no replica", values: values{"replicas": 0}, want: "replicas"},
		{name: "a namespace that cannot be", values: values{"exemptNamespaces": []any{"Kube System"}}, want: "exemptNamespaces"},
		{name: "tenancy under a name that anybody may serve", values: values{"profile": "berth", "features": values{"tenancy": true}}, want: `profile: is "berth", must end in "-tenancy"`},
		{name: "the name of tenancy without it", values: values{"profile": "berth-tenancy"}, want: `must not end in "-tenancy"`},
		{name: "tenancy beside its feature", values: values{"labelPresence": values{"args": values{"tenancy": values{}}}}, want: "tenancy"},
		{name: "the name of the cluster's own scheduler", values: values{"profile": "default-scheduler"}, want: `profile: is "default-scheduler", the name that the cluster's own scheduler serves`},
		{name: "that name by the instance's", values: values{"fullnameOverride": "default-scheduler"}, want: `profile: is "default-scheduler"`},
		{name: "the random scheduler's name", values: values{"profile": "x-random", "features": values{"randomScheduler": true}}, want: `profile: is "x-random", which the random scheduler of this release serves`},
		{name: "a pool that is no value of a label", values: values{"gpu": values{"pool": "a/b"}}, want: "pool"},
		{name: "a scheduler that cannot be", values: values{"gpu": values{"countingSchedulers": []any{"My Scheduler"}}}, want: "countingSchedulers"},
		{name: "a pool beside its value", values: values{"gpu": values{"args": values{"pool": "a"}}}, want: "pool"},
		{
			name:   "another instance with the same pool",
			values: values{"policies": values{"otherInstances": []any{values{"name": "y", "namespace": "ns", "profile": "y", "gpuPool": ""}}}},
			want:   `policies.otherInstances[0].gpuPool: "" is already used`,
		},
		{
			name: "two others with one pool",
			values: values{"policies": values{"otherInstances": []any{
				values{"name": "y", "namespace": "ns", "profile": "y", "gpuPool": "a"}, values{"name": "z", "namespace": "ns", "profile": "z", "gpuPool": "a"},
			}}},
			want: `policies.otherInstances[1].gpuPool: "a" is already used`,
		},
		{
			name:   "another instance with the same profile",
			values: values{"policies": values{"otherInstances": []any{values{"name": "y", "namespace": "ns", "profile": "x"}}}},
			want:   `policies.otherInstances[0].profile: "x" is already used`,
		},
		{name: "no ServiceAccount", values: values{"serviceAccount": values{"create": false}}, want: "serviceAccount.name: Required value"},
		{name: "a tag for a digest", values: values{"image": values{"digest": "v1"}}, want: "digest"},
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
	v["affinity"] = values{"nodeAffinity": values{}}
	v["podLabels"] = values{"team": "platform", "app.kubernetes.io/name": "mine"}
	v["podAnnotations"] = values{"team": "platform"}
	v["extraEnv"] = []any{values{"name": "GOMAXPROCS", "value": "2"}}
	objects := newHelm(t, "4", "").render(t, "one", "berth-one", v)
	for _, name := range []string{"one", "one-random"} {
		spec := find(t, objects, "Deployment", name).Object["spec"].(map[string]any)
		template := spec["template"].(map[string]any)
		pod, meta := template["spec"].(map[string]any), template["metadata"].(map[string]any)
		pod["imagePullPolicy"] = pod["containers"].([]any)[0].(map[string]any)["imagePullPolicy"]
		pod["env"] = pod["containers"].([]any)[0].(map[string]any)["env"]
		pod["annotation"] = meta["annotations"].(map[string]any)["team"]
		pod["label"] = meta["labels"].(map[string]any)["team"]
		// What the Deployment selects stays what it is.
		for key, value := range spec["selector"].(map[string]any)["matchLabels"].(map[string]any) {
			if meta["labels"].(map[string]any)[key] != value {
				t.Errorf("the pods of Deployment %s have %s=%v, and it selects %v", name, key, meta["labels"].(map[string]any)[key], value)
			}
		}
		want := map[string]any{
			"nodeSelector":     map[string]any{"pool": "system"},
			"tolerations":      []any{map[string]any{"key": "pool", "operator": "Exists"}},
			"imagePullSecrets": []any{map[string]any{"name": "registry"}},
			"imagePullPolicy":  "Never",
			"affinity":         map[string]any{"nodeAffinity": map[string]any{}},
			"env":              []any{map[string]any{"name": "GOMAXPROCS", "value": "2"}},
			"annotation":       "platform",
			"label":            "platform",
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

// The names of an instance are the values', everywhere: what refers to an object has its name.
func TestNames(t *testing.T) {
	t.Parallel()
	v := features(append([]string{"randomScheduler"}, combined...)...)
	v["fullnameOverride"] = "mine"
	v["serviceAccount"] = values{"name": "robot", "annotations": values{"team": "platform"}}
	v["image"] = values{"digest": "sha256:" + strings.Repeat("0", 64)}
	v["monitoring"] = values{"create": true, "dashboard": true, "readers": []any{values{"kind": "User", "name": "p"}}}
	v["tenancy"] = values{"tenants": []any{
		values{"name": "Team_A", "assigners": []any{values{"kind": "Group", "name": "a"}}}, values{"name": "team_a", "assigners": []any{values{"kind": "Group", "name": "b"}}},
	}}
	objects := newHelm(t, "4", "").render(t, "release", "ns", v)
	seen := map[string]bool{}
	for i := range objects {
		key := objects[i].GetKind() + " " + objects[i].GetNamespace() + "/" + objects[i].GetName()
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		o := objects[i].DeepCopy()
		o.SetLabels(nil)
		for _, text := range []string{`"release"`, `"release-`, "berth-scheduler:v", ":ns:mine"} {
			// Selectors and labels are by the release, which is what Helm knows.
			if got := strings.ReplaceAll(asJSON(t, *o), `"app.kubernetes.io/instance":"release"`, ""); strings.Contains(got, text) {
				t.Errorf("%s has %s: %s", key, text, got)
			}
		}
	}
	account := find(t, objects, "ServiceAccount", "robot")
	if account.GetAnnotations()["team"] != "platform" {
		t.Errorf("the annotations of the ServiceAccount are %v", account.GetAnnotations())
	}
	for _, name := range []string{"mine-tenant-Team_A", "mine-tenant-team_a"} {
		if role := find(t, objects, "ClusterRole", name); !strings.Contains(asJSON(t, *role), `"resourceNames":["`+strings.TrimPrefix(name, "mine-tenant-")+`"]`) {
			t.Errorf("%s: %s", name, asJSON(t, *role))
		}
	}
	for text, want := range map[string]string{
		asJSON(t, *find(t, objects, "Deployment", "mine")):                                           `"serviceAccountName":"robot"`,
		asJSON(t, *find(t, objects, "ClusterRoleBinding", "berth:gpu-pool")):                         `"name":"robot"`,
		asJSON(t, *find(t, objects, "ValidatingAdmissionPolicy", "berth-tenancy-bindings")):          "system:serviceaccount:ns:robot",
		profile(t, objects, "mine"):                                                                  "resourceName: mine",
		asJSON(t, *find(t, objects, "ValidatingAdmissionPolicy", "mine-priority")):                   "== 'mine'",
		asJSON(t, *find(t, objects, "ValidatingAdmissionPolicyBinding", "mine-priority")) + "/image": `"policyName":"mine-priority"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in %s", want, text)
		}
	}
}

// Without roles of its own the chart brings none at all.
func TestWithoutRoles(t *testing.T) {
	t.Parallel()
	v := features(append([]string{"randomScheduler"}, combined...)...)
	v["rbac"] = values{"create": false}
	v["serviceAccount"] = values{"create": false, "name": "robot"}
	v["monitoring"] = values{"readers": []any{values{"kind": "User", "name": "p"}}}
	v["tenancy"] = values{"tenants": []any{values{"name": "a", "assigners": []any{values{"kind": "Group", "name": "a"}}}}}
	for _, o := range newHelm(t, "4", "").render(t, "release", "ns", v) {
		if o.GroupVersionKind().Group == "rbac.authorization.k8s.io" || o.GetKind() == "ServiceAccount" && o.GetName() != "release-random" {
			t.Errorf("%s %s is rendered", o.GetKind(), o.GetName())
		}
	}
}

// The feature gates are those of the release of Kubernetes, which is named where no cluster says it.
func TestFeatureGates(t *testing.T) {
	t.Parallel()
	for _, major := range []string{"3", "4"} {
		h := newHelm(t, major, "")
		for version, want := range map[string]string{
			"1.36.4": `"--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"`, "1.37.0": `"--feature-gates=GenericWorkload=true"`,
		} {
			deployment := find(t, h.render(t, "x", "ns", features("gang"), "--kube-version="+version), "Deployment", "x")
			if got := asJSON(t, *deployment); !strings.Contains(got, want) {
				t.Errorf("Helm %s for Kubernetes %s: want %s in %s", major, version, want, got)
			}
		}
		_, err := h.template(t, "x", "ns", features("gang"), "--kube-version=1.35.0")
		if want := "features.gang: the feature gates differ between Kubernetes 1.36 and 1.37, and v1.35.0 is neither"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Helm %s: want an error with %q, got %v", major, want, err)
		}
		if _, err := h.template(t, "x", "ns", features("gpu"), "--kube-version=1.20.0"); err != nil {
			t.Errorf("Helm %s without gangs: %v", major, err)
		}
	}
}

// Who counts a device plugin's resources: who always does, and who is named.
func TestCountingSchedulers(t *testing.T) {
	h := newHelm(t, "4", "")
	others := values{"otherInstances": []any{
		values{"name": "y", "namespace": "ns", "profile": "sharing", "gpuPool": "other"}, values{"name": "z", "namespace": "ns", "profile": "without-shares"},
	}}
	for _, tt := range []struct {
		name   string
		values values
		want   string
	}{
		{name: "by default", want: `"['default-scheduler']"`},
		{name: "named", values: values{"gpu": values{"countingSchedulers": []any{"volcano", "x", "default-scheduler"}}}, want: `"['default-scheduler', 'volcano']"`},
		{name: "of other instances", values: values{"policies": others}, want: `"['default-scheduler', 'without-shares']"`},
		{name: "at random", values: values{"features": values{"randomScheduler": true}}, want: `"['default-scheduler']"`},
		{
			name: "at random by resources", values: values{"features": values{"randomScheduler": true}, "randomScheduler": values{"fit": "resources"}},
			want: `"['default-scheduler', 'x-random']"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := asJSON(t, *find(t, h.render(t, "x", "ns", tt.values), "ValidatingAdmissionPolicy", "berth-gpu-devices"))
			if want := `{"expression":` + tt.want + `,"name":"countingSchedulers"}`; !strings.Contains(policy, want) {
				t.Errorf("want %s in %s", want, policy)
			}
		})
	}
}

// A profile that names no pool is one for nodes without the label, word for word as before.
func TestPool(t *testing.T) {
	t.Parallel()
	h := newHelm(t, "4", "")
	for pool, lock := range map[string]string{"": "berth:gpu-pool", "a100": "berth:gpu-pool:a100", "A.b_c": "berth:gpu-pool:A.b_c"} {
		v := features("gpu")
		v["gpu"] = values{"pool": pool}
		v["policies"] = values{"otherInstances": []any{
			values{"name": "y", "namespace": "ns", "profile": "sharing", "gpuPool": "other"}, values{"name": "z", "namespace": "ns", "profile": "without-shares"},
		}}
		objects := h.render(t, "x", "ns", v)
		find(t, objects, "ClusterRoleBinding", lock)
		loaded := load(t, "chart", profile(t, objects, "x"))
		if got := registry.Pools(loaded.Config, loaded.Effective)["x"]; got != pool {
			t.Errorf("the pool of the profile is %q, want %q", got, pool)
		}
		if policy := asJSON(t, *find(t, objects, "ValidatingAdmissionPolicy", "berth-gpu-devices")); !strings.Contains(policy, "['x', 'sharing']") {
			t.Errorf("who gives shares: %s", policy)
		}
	}
}
