// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestSeveralInstances: one folder and one kubeconfig have one instance at a time. One that
// was killed could not remove its keys; the next one does, and leaves one alone that runs.
func TestSeveralInstances(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	running, killed, first := up(t), up(t), up(t)
	for _, tt := range []struct {
		name, flag string
		want       []string
	}{
		{"on one folder", "--data-dir=" + first.dataDir, []string{"--data-dir " + first.dataDir, "in use by another berth-local"}},
		{"on one kubeconfig", "--kubeconfig=" + first.kubeconfig, []string{"--kubeconfig " + first.kubeconfig, first.dataDir, "still runs"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := launch(t, tt.flag)
			if code := second.Wait(t, framework.WaitTimeout); code != 1 {
				t.Errorf("exit code: want 1, got %d", code)
			}
			for _, want := range append(tt.want, fmt.Sprintf("process %d", first.PID())) {
				if got := second.errors(t); !strings.Contains(got, want) {
					t.Errorf("standard error: want it to contain %q, got:\n%s", want, got)
				}
			}
			// The first one has not noticed.
			framework.Kubectl(t, first.kubeconfig, "get", "namespaces")
		})
	}

	for _, l := range []*local{killed, first} {
		l.Kill()
		wantNoComponents(t, l.dataDir)
		// The folder's lock goes with the process; what it holds stays.
		if _, err := os.Stat(filepath.Join(l.dataDir, "pki", "ca.key")); err != nil {
			t.Fatalf("this test expects something to be left: %v", err)
		}
	}
	// The kubeconfig of one that was killed may be taken.
	next := launch(t, "--kubeconfig="+first.kubeconfig)
	framework.WaitForCondition(t, startTimeout, "the ready line", func() (bool, error) {
		return strings.HasSuffix(next.Output(), "\n"), nil
	})
	for _, path := range []string{killed.dataDir, killed.kubeconfig, first.dataDir} {
		wantAbsent(t, path)
	}
	framework.Kubectl(t, first.kubeconfig, "get", "namespaces")
	framework.Kubectl(t, running.kubeconfig, "get", "namespaces")

	// If the file has another cluster too, it does not belong to the instance alone.
	content, err := os.ReadFile(first.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "dataDir: ") {
		t.Errorf("the kubeconfig does not say whose it is:\n%s", content)
	}
	framework.Kubectl(t, first.kubeconfig, "config", "set-cluster", "prod", "--server=https://prod")
	for _, l := range []*local{next, running} {
		if code := l.Stop(t); code != 0 {
			t.Errorf("exit code: want 0, got %d:\n%s", code, l.errors(t))
		}
	}
	if _, err := os.Stat(first.kubeconfig); err != nil {
		t.Errorf("the kubeconfig with another cluster in it stays: %v", err)
	}
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
