// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"testing"

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
