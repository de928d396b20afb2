// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestSweep: of all that lies in the folder for temporary files, only what a killed
// control plane left goes.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	open := func(dir string) *folder {
		t.Helper()
		f, err := openFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.close() })
		return f
	}
	publish := func(f *folder, dataDir string) string {
		t.Helper()
		config, err := encodeKubeconfig("https://127.0.0.1:1", nil, "user", clientcmdapi.NewAuthInfo(), &owner{DataDir: dataDir})
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := errors.Join(err, os.WriteFile(path, config, 0o600), os.WriteFile(f.published(), []byte(path), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	killed := func(f *folder) *folder {
		t.Helper()
		if err := f.close(); err != nil { // as the kernel does
			t.Fatal(err)
		}
		return f
	}

	runs := open("")
	gone := killed(open(""))
	gonesKubeconfig := publish(gone, gone.root)
	took := killed(open(""))
	anothers := publish(took, runs.root)
	kept := killed(open(filepath.Join(os.TempDir(), temporaryPrefix+"kept")))
	failed := open("")
	if err := errors.Join(failed.removeButLogs(), failed.close()); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(os.TempDir(), temporaryPrefix+"foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(os.TempDir(), temporaryPrefix+"linked")
	if err := os.Symlink(kept.root, linked); err != nil {
		t.Fatal(err)
	}

	sweep(t.Context())
	for _, path := range []string{gone.root, gonesKubeconfig, took.root} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: want it to be gone, got %v", path, err)
		}
	}
	for name, path := range map[string]string{
		"the folder of one that runs": runs.pki(""), "a kubeconfig that became another's": anothers,
		"a folder to keep": kept.pki(""), "the logs of a failed start": failed.path("logs"), "a foreign folder": foreign, "a link": linked,
	} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
