// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"io/fs"
	"slices"
	"testing"
)

// topLevel are the folders that the repository has, and no other. A new one is a
// decision about the whole, not a by-product of a change.
var topLevel = []string{"cmd", "config", "hack", "manifests", "pkg", "test"}

// strayFolders finds folders at the top that do not belong there, and packages at
// the root, which would become the module's public face.
func strayFolders(t *testing.T, tree fs.FS) []string {
	t.Helper()
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	var violations []string
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case entry.IsDir() && (isHidden(name) || name == "bin" || name == "out"):
		case entry.IsDir() && !slices.Contains(topLevel, name):
			violations = append(violations, name+": not one of the folders at the top of the repository")
		case !entry.IsDir() && len(name) > 3 && name[len(name)-3:] == ".go":
			violations = append(violations, name+": Go code belongs into a folder")
		}
	}
	return violations
}

func TestLayout(t *testing.T) {
	t.Run("finds violations", func(t *testing.T) {
		runOnTree(t, strayFolders, map[string]string{
			".ci/run":        "",
			".git/HEAD":      "",
			"Makefile":       "",
			"bin/kubectl":    "",
			"cmd/x/main.go":  "",
			"doc.go":         "",
			"internal/x.go":  "",
			"pkg/a.go":       "",
			"scripts/run.sh": "",
		}, []string{
			"doc.go: Go code belongs into a folder",
			"internal: not one of the folders at the top of the repository",
			"scripts: not one of the folders at the top of the repository",
		})
	})
	t.Run("repository", func(t *testing.T) { runOnRepository(t, strayFolders) })
}
