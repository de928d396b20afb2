// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolderOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(dir); err == nil || !strings.Contains(err.Error(), "not empty and holds no data of berth-local") {
		t.Errorf("want an error that says whose it is not, got %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("want the folder untouched, got %v", entries)
	}
}

func TestRemoveSparesKeptFolders(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kept, err := openFolder(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	temporary, err := openFolder("")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*folder{kept, temporary} {
		if err := f.removeButLogs(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(kept.pki("")); err != nil {
		t.Errorf("a kept folder keeps everything: %v", err)
	}
	if _, err := os.Stat(temporary.path("logs")); err != nil {
		t.Errorf("a failed start keeps its logs: %v", err)
	}
	if _, err := os.Stat(temporary.pki("")); !os.IsNotExist(err) {
		t.Errorf("a failed start keeps nothing else: %v", err)
	}
	for _, f := range []*folder{kept, temporary} {
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(kept.root); err != nil {
		t.Errorf("a kept folder stays: %v", err)
	}
	if _, err := os.Stat(temporary.root); !os.IsNotExist(err) {
		t.Errorf("a temporary folder goes: %v", err)
	}
}
