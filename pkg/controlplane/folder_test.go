// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolderIsLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openFolder(dir)
	want := fmt.Sprintf("--data-dir %s: the folder is in use by another berth-local (process %d)", dir, os.Getpid())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("opening it twice: want an error that contains %q, got %v", want, err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(dir)
	if err != nil {
		t.Fatalf("opening it after the first one closed it: %v", err)
	}
	if err := again.close(); err != nil {
		t.Error(err)
	}
}

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
