// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// empty fails unless there is nothing in dir.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("left in %s: %s", dir, entry.Name())
	}
}

// TestUpSignalledTwice: timeout sends its signal to the process and to its group.
func TestUpSignalledTwice(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	l := up(t)
	l.Signal(syscall.SIGTERM)
	framework.WaitForCondition(t, framework.WaitTimeout, "the stop to begin", func() (bool, error) {
		return strings.Contains(l.errors(t), "stopping"), nil
	})
	for l.Running() {
		l.Signal(syscall.SIGTERM)
	}
	if code := l.Wait(t, framework.WaitTimeout); code != 0 {
		t.Errorf("exit code: want 0, got %d:\n%s", code, l.errors(t))
	}
	empty(t, temporary)
	wantAbsent(t, l.kubeconfig)
}

// TestNextStartSweeps: one that was killed could not remove its keys; the next one
// does, and leaves one alone that runs.
func TestNextStartSweeps(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	killed, running := up(t), up(t)
	killed.Kill()
	wantNoComponents(t, killed.dataDir)
	// The folder's lock goes with the process; what it holds stays.
	if _, err := os.Stat(filepath.Join(killed.dataDir, "pki", "ca.key")); err != nil {
		t.Fatalf("this test expects something to be left: %v", err)
	}
	next := up(t)
	wantAbsent(t, killed.dataDir)
	wantAbsent(t, killed.kubeconfig)
	framework.Kubectl(t, running.kubeconfig, "get", "namespaces")
	next.Stop(t)
	running.Stop(t)
	empty(t, temporary)
}

// TestNoSpace starts on a file system that is too small, in a mount namespace of
// its own.
func TestNoSpace(t *testing.T) {
	small := t.TempDir()
	mount := `mount -t tmpfs -o size=20m tmpfs "` + small + `"`
	if out, err := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-c", mount).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system here: %v\n%s", err, out)
	}
	command := mount + ` && TMPDIR="` + small + `" exec "$0" up --kubeconfig="` + filepath.Join(t.TempDir(), "kubeconfig") + `"`
	p := framework.StartProcess(t, "/usr/bin/unshare", "-Urm", "sh", "-c", command, framework.Binary(t, framework.BerthLocal))
	if code := p.Wait(t, startTimeout); code != 1 {
		t.Errorf("exit code: want 1, got %d", code)
	}
	for _, want := range []string{"no space left on device", "--data-dir " + small, "free some space"} {
		if !strings.Contains(p.Output(), want) {
			t.Errorf("want %q in\n%s", want, p.Output())
		}
	}
}
