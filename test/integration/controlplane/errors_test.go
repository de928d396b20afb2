// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// file writes a file of the test and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpRefuses has a mistake of each kind; unit tests of pkg/localcluster have the others of
// ports, folders and kubeconfigs.
func TestUpRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	taken := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	regular := file(t, "regular", "something")
	const count = "a whole number from 0 to 20000"

	for _, tt := range []struct {
		name     string
		arg      string
		wantCode int
		want     []string
		// wantLogs: the start came so far that there are logs, which stay.
		wantLogs bool
	}{
		{"a port that something listens on", "--port=" + taken, 1, []string{"--port " + taken, "127.0.0.1:" + taken, "address already in use", "choose another port"}, false},
		{"a port that does not exist", "--port=70000", 2, []string{"--port 70000", "between 1 and 65535"}, false},
		{"a folder below a file", "--data-dir=" + filepath.Join(regular, "data"), 1, []string{"--data-dir " + filepath.Join(regular, "data"), "not a directory", "name one that you can write to"}, false},
		{"a folder where nobody can create files", "--data-dir=/proc/self/data", 1, []string{"--data-dir /proc/self/data", "cannot use the folder"}, false},
		{"a kubeconfig in a folder that does not exist", "--kubeconfig=" + filepath.Join(regular, "kubeconfig"), 1, []string{"--kubeconfig " + filepath.Join(regular, "kubeconfig"), "not a directory"}, false},
		{"an audit log in a folder that does not exist", "--audit-log=" + filepath.Join(regular, "audit.log"), 1, []string{"--audit-log " + filepath.Join(regular, "audit.log"), "not a directory"}, false},
		{"a file of nodes that does not exist", "--nodes=missing.yaml", 2, []string{"--nodes missing.yaml", "no such file"}, false},
		{"a negative number of nodes", "--nodes=-1", 2, []string{"--nodes -1", count}, false},
		{"more nodes than a machine bears", "--nodes=20001", 2, []string{"--nodes 20001", count}, false},
		{"more nodes than a number holds", "--nodes=100000000000000000000", 2, []string{"--nodes 100000000000000000000", count}, false},
		{"a fraction of a node", "--nodes=1.5", 2, []string{"--nodes 1.5", count, "./1.5"}, false},
		{"a number of nodes with a separator", "--nodes=1,000", 2, []string{"--nodes 1,000", count}, false},
		{"no time to start", "--start-timeout=0s", 2, []string{"--start-timeout 0s", "more than 0"}, false},
		{"an unknown flag", "--node=3", 2, []string{"--node", "--help"}, false},
		{"an argument", "3", 2, []string{`unexpected argument "3"`}, false},
		{"a flag that kube-apiserver does not know", "--apiserver-arg=--no-such-flag", 1, []string{"kube-apiserver ended unexpectedly", "unknown flag: --no-such-flag"}, true},
		{"a feature gate that kube-apiserver does not know", "--feature-gates=NoSuchGate=true", 1, []string{"kube-apiserver ended unexpectedly", "unrecognized feature gate: NoSuchGate"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			l := launch(t, tt.arg)
			if code := l.Wait(t, startTimeout); code != tt.wantCode {
				t.Errorf("exit code: want %d, got %d", tt.wantCode, code)
			}
			message := l.errors(t)
			for _, want := range tt.want {
				if !strings.Contains(message, want) {
					t.Errorf("standard error: want it to contain %q, got:\n%s", want, message)
				}
			}
			if l.Output() != "" {
				t.Errorf("standard output: want none, got %q", l.Output())
			}
			wantAbsent(t, l.kubeconfig)
			left, err := filepath.Glob(filepath.Join(temporary, "berth-local-*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range left {
				if !tt.wantLogs || filepath.Base(path) != "logs" {
					t.Errorf("left behind: %s", path)
				}
			}
		})
	}
}
