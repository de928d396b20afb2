// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFullDisk fills a file system of one MiB for real.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a tmpfs needs rights that this process does not have: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	if err := WriteFiles(dir, File{"one.json", []byte("old")}); err != nil {
		t.Fatal(err)
	}
	err := WriteFiles(dir, File{"one.json", []byte("new")}, File{"two.html", make([]byte, 2<<20)})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want %v", err, syscall.ENOSPC)
	}
	if want := "cannot write " + filepath.Join(dir, "two.html") + ": no space left on device"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if diff := cmp.Diff(map[string]string{"one.json": "old"}, tree(t, dir)); diff != "" {
		t.Errorf("files (-want,+got):\n%s", diff)
	}
}
