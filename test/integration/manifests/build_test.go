// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests tests what manifests/ installs, against a real API server
// and controller-manager, and with the scheduler run as its Deployment says.
package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// kustomizations returns the folders below manifests/ that kubectl apply -k
// accepts, relative to it. Components are not among them: overlays use them.
func kustomizations(t *testing.T) []string {
	t.Helper()
	root := install.Path("manifests")
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var head struct{ Kind string }
		if err := yaml.Unmarshal(content, &head); err != nil {
			return err
		}
		if head.Kind == "Kustomization" {
			relative, err := filepath.Rel(root, filepath.Dir(path))
			found = append(found, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, promised := range []string{"base", "namespace", "overlays/ha", "overlays/tenancy", "overlays/ha-tenancy", "overlays/gpu", "random-scheduler"} {
		if !slices.Contains(found, promised) {
			t.Errorf("manifests/%s: promised in the README, but it is no kustomization", promised)
		}
	}
	return found
}

func TestKustomizationsBuild(t *testing.T) {
	for _, dir := range kustomizations(t) {
		t.Run(dir, func(t *testing.T) {
			for _, r := range install.Build(t, install.Path("manifests", dir)).Resources() {
				// Kustomize's own namespace field would move the binding that must
				// stay in kube-system; so the objects carry theirs, and none may forget.
				clusterScoped := strings.HasPrefix(r.GetKind(), "Cluster") || strings.Contains(r.GetKind(), "AdmissionPolicy") ||
					slices.Contains([]string{"Namespace", "PriorityClass", "CustomResourceDefinition"}, r.GetKind())
				if got := r.GetNamespace(); (got == "") != clusterScoped {
					t.Errorf("%s %s: namespace is %q", r.GetKind(), r.GetName(), got)
				}
			}
		})
	}
}

// TestLeaseRightKeepsItsName: kustomize takes a resourceName for a reference to
// a ConfigMap of that name and appends the hash.
func TestLeaseRightKeepsItsName(t *testing.T) {
	role := install.Find[rbacv1.Role](t, install.Build(t, install.Path("manifests/base")), "Role", names.Scheduler)
	var got []string
	for _, rule := range role.Rules {
		got = append(got, rule.ResourceNames...)
	}
	if diff := cmp.Diff([]string{names.Scheduler}, got); diff != "" {
		t.Errorf("unexpected lease names (-want,+got):\n%s", diff)
	}
}

// TestEditedProfileIsARollout edits a profile in a copy of the repository: the
// pod template must change with it.
func TestEditedProfileIsARollout(t *testing.T) {
	copied := t.TempDir()
	for _, dir := range []string{"manifests", "config"} {
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(install.Path(dir))); err != nil {
			t.Fatal(err)
		}
	}
	mounted := func() string {
		deployment := install.Find[appsv1.Deployment](t, install.Build(t, filepath.Join(copied, "manifests/overlays/tenancy")), "Deployment", names.Scheduler)
		return deployment.Spec.Template.Spec.Volumes[0].ConfigMap.Name
	}
	before := mounted()
	profile := filepath.Join(copied, "config/berth-scheduler/tenancy.yaml")
	content, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(content), "tenants: Confined", "tenants: Free", 1)
	if edited == string(content) {
		t.Fatal("the profile has no line to edit")
	}
	if err := os.WriteFile(profile, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := mounted(); after == before {
		t.Errorf("the Deployment mounts ConfigMap %q before and after the edit, so no pod would be replaced", before)
	}
}

// TestOverlayInTheReadme builds the overlay that manifests/README.md shows, beside
// a copy of the repository.
func TestOverlayInTheReadme(t *testing.T) {
	content, err := os.ReadFile(install.Path("manifests/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(content), "```yaml\n")
	overlay, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("manifests/README.md shows no overlay")
	}
	root := t.TempDir()
	for _, dir := range []string{"manifests", "config"} {
		if err := os.CopyFS(filepath.Join(root, "berth", dir), os.DirFS(install.Path(dir))); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(root, "mine")
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	deployment := install.Find[appsv1.Deployment](t, install.Build(t, mine), "Deployment", names.Scheduler)
	want := "registry.example.com/berth-scheduler:v0.1.0"
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != want {
		t.Errorf("the overlay's Deployment runs %q, want %q", got, want)
	}
}
