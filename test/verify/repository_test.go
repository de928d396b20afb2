// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// module is the import path of the repository's root.
const module = "github.com/berth-scheduler/berth"

// check inspects a tree and returns one line per violation: path, what is
// wrong. The lines come in the order of fs.WalkDir.
type check func(t *testing.T, tree fs.FS) []string

// root is the repository's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("not in test/verify of a checkout: %v", err)
	}
	return dir
}

// runOnRepository reports every violation that the check finds in this checkout.
func runOnRepository(t *testing.T, c check) {
	t.Helper()
	for _, violation := range c(t, os.DirFS(root(t))) {
		t.Error(violation)
	}
}

// runOnTree compares what the check finds in a made-up tree with want.
func runOnTree(t *testing.T, c check, files map[string]string, want []string) {
	t.Helper()
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	if diff := cmp.Diff(want, c(t, tree)); diff != "" {
		t.Errorf("violations (-want,+got):\n%s", diff)
	}
}

// files calls visit with every file of the repository. What is built (bin, out)
// and what tools keep beside it (hidden folders but .ci) is left out.
func files(t *testing.T, tree fs.FS, visit func(name string, content []byte)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "bin" || name == "out" || isHidden(name) && name != ".ci" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, ".test") || strings.HasSuffix(name, ".prof") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		visit(name, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isHidden reports whether the last element of a path starts with a dot; the
// root itself does not count.
func isHidden(name string) bool {
	return name != "." && strings.HasPrefix(path.Base(name), ".")
}
