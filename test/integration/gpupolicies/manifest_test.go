// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestPoliciesAgree: what the two policies on devices both say must be the same,
// or what one sets the other refuses. And the Deployment runs the profile that they
// are for.
func TestPoliciesAgree(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), install.Path("manifests/overlays/gpu"))
	if err != nil {
		t.Fatal(err)
	}
	mutation := find[admissionregistrationv1.MutatingAdmissionPolicy](t, built, "MutatingAdmissionPolicy", "berth-gpu-devices")
	validation := find[admissionregistrationv1.ValidatingAdmissionPolicy](t, built, "ValidatingAdmissionPolicy", "berth-gpu-devices")
	sets, judges := map[string]string{}, map[string]string{}
	for _, variable := range mutation.Spec.Variables {
		sets[variable.Name] = variable.Expression
	}
	for _, variable := range validation.Spec.Variables {
		judges[variable.Name] = variable.Expression
	}
	for _, name := range []string{"exempt", "longLived", "asking", "usesDevicePlugin", "concerned"} {
		if sets[name] == "" {
			t.Errorf("the mutation has no variable %q", name)
		}
		if diff := cmp.Diff(sets[name], judges[name]); diff != "" {
			t.Errorf("variable %q differs (-mutation,+validation):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(mutation.Spec.MatchConditions[0].Expression, validation.Spec.MatchConditions[0].Expression); diff != "" {
		t.Errorf("the match conditions differ (-mutation,+validation):\n%s", diff)
	}

	deployment := find[appsv1.Deployment](t, built, "Deployment", names.Scheduler)
	const want = "--config=/etc/berth-scheduler/gpu.yaml"
	if got := deployment.Spec.Template.Spec.Containers[0].Args[0]; got != want {
		t.Errorf("the Deployment runs with %q, want %q", got, want)
	}
}

// find decodes the one object of the kind with the name into a T.
func find[T any](t *testing.T, built resmap.ResMap, kind, name string) *T {
	t.Helper()
	for _, r := range built.Resources() {
		if r.GetKind() != kind || r.GetName() != name {
			continue
		}
		content, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object := new(T)
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return object
	}
	t.Fatalf("no %s %q was built", kind, name)
	return nil
}
