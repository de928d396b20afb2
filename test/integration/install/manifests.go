// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// Path returns the absolute path of a file or folder of the repository, given
// relative to its root.
func Path(elem ...string) string {
	return filepath.Join(append([]string{framework.Root()}, elem...)...)
}

// Apply applies a kustomization of manifests/, such as "overlays/ha", and fails
// the test if the API server does not know one of its fields.
func Apply(tb testing.TB, c *framework.Cluster, kustomization string) {
	tb.Helper()
	c.Kubectl(tb, "apply", "--validate=strict", "-k", Path("manifests", kustomization))
}

// Build runs kustomize as kubectl does, with its default restrictions.
func Build(tb testing.TB, dir string) resmap.ResMap {
	tb.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		tb.Fatalf("building %s: %v", dir, err)
	}
	return built
}

// Find decodes the one object of the kind with the name into a T.
func Find[T any](tb testing.TB, built resmap.ResMap, kind, name string) *T {
	tb.Helper()
	for _, r := range built.Resources() {
		if r.GetKind() != kind || r.GetName() != name {
			continue
		}
		content, err := r.AsYAML()
		if err != nil {
			tb.Fatal(err)
		}
		object := new(T)
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			tb.Fatalf("%s %s: %v", kind, name, err)
		}
		return object
	}
	tb.Fatalf("no %s %q was built", kind, name)
	return nil
}
