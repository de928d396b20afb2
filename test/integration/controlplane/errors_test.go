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

func TestUpRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	taken := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	regular := file(t, "regular", "something")
	others := file(t, "config", "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: https://prod}}]\n")

	for _, tt := range []struct {
		name     string
		args     []string
		wantCode int
		want     []string
		// wantLogs: the start came so far that there are logs, which stay.
		wantLogs bool
	}{
		{
			name:     "a port that something listens on",
			args:     []string{"--port=" + taken},
			wantCode: 1,
			want:     []string{"--port " + taken, "127.0.0.1:" + taken, "address already in use", "choose another port"},
		},
		{
			name:     "a port that does not exist",
			args:     []string{"--port=70000"},
			wantCode: 2,
			want:     []string{"--port 70000", "between 1 and 65535"},
		},
		{
			name:     "a negative port",
			args:     []string{"--port=-1"},
			wantCode: 2,
			want:     []string{"--port -1", "between 1 and 65535"},
		},
		{
			name:     "a folder below a file",
			args:     []string{"--data-dir=" + filepath.Join(regular, "data")},
			wantCode: 1,
			want:     []string{"--data-dir " + filepath.Join(regular, "data"), "not a directory", "name one that you can write to"},
		},
		{
			name:     "a folder where nobody can create files",
			args:     []string{"--data-dir=/proc/self/data"},
			wantCode: 1,
			want:     []string{"--data-dir /proc/self/data", "cannot use the folder"},
		},
		{
			name:     "a folder with something else in it",
			args:     []string{"--data-dir=" + filepath.Dir(regular)},
			wantCode: 1,
			want:     []string{"--data-dir " + filepath.Dir(regular), "not empty", "holds no data of berth-local"},
		},
		{
			name:     "a kubeconfig in a folder that does not exist",
			args:     []string{"--kubeconfig=" + filepath.Join(t.TempDir(), "missing", "kubeconfig")},
			wantCode: 1,
			want:     []string{"--kubeconfig ", "missing/kubeconfig", "no such file or directory"},
		},
		{
			name:     "a kubeconfig that holds another cluster",
			args:     []string{"--kubeconfig=" + others},
			wantCode: 1,
			want:     []string{"--kubeconfig " + others, "berth-local did not write it"},
		},
		{
			name:     "an audit log in a folder that does not exist",
			args:     []string{"--audit-log=" + filepath.Join(regular, "audit.log")},
			wantCode: 1,
			want:     []string{"--audit-log " + filepath.Join(regular, "audit.log"), "not a directory"},
		},
		{
			name:     "a file of nodes that does not exist",
			args:     []string{"--nodes=missing.yaml"},
			wantCode: 2,
			want:     []string{"--nodes missing.yaml", "no such file"},
		},
		{
			name:     "a file of nodes with an unknown field",
			args:     []string{"--nodes=" + file(t, "nodes.yaml", "kind: Node\napiVersion: v1\nmetadata: {name: a}\nspec: {taint: []}\n")},
			wantCode: 2,
			want:     []string{"nodes.yaml: document 1", `"spec.taint"`},
		},
		{
			name:     "a negative number of nodes",
			args:     []string{"--nodes=-1"},
			wantCode: 2,
			want:     []string{"--nodes -1", "a whole number from 0 to 20000"},
		},
		{
			name:     "more nodes than a machine bears",
			args:     []string{"--nodes=20001"},
			wantCode: 2,
			want:     []string{"--nodes 20001", "a whole number from 0 to 20000"},
		},
		{
			name:     "more nodes than a number holds",
			args:     []string{"--nodes=100000000000000000000"},
			wantCode: 2,
			want:     []string{"--nodes 100000000000000000000", "a whole number from 0 to 20000"},
		},
		{
			name:     "a fraction of a node",
			args:     []string{"--nodes=1.5"},
			wantCode: 2,
			want:     []string{"--nodes 1.5", "a whole number from 0 to 20000", "./1.5"},
		},
		{
			name:     "a number of nodes with a separator",
			args:     []string{"--nodes=1,000"},
			wantCode: 2,
			want:     []string{"--nodes 1,000", "a whole number from 0 to 20000"},
		},
		{
			name:     "no time to start",
			args:     []string{"--start-timeout=0s"},
			wantCode: 2,
			want:     []string{"--start-timeout 0s", "more than 0"},
		},
		{
			name:     "less than no time to start",
			args:     []string{"--start-timeout=-1m"},
			wantCode: 2,
			want:     []string{"--start-timeout -1m0s", "more than 0"},
		},
		{
			name:     "an unknown flag",
			args:     []string{"--node=3"},
			wantCode: 2,
			want:     []string{"--node", "--help"},
		},
		{
			name:     "an argument",
			args:     []string{"3"},
			wantCode: 2,
			want:     []string{`unexpected argument "3"`},
		},
		{
			name:     "a flag that kube-apiserver does not know",
			args:     []string{"--apiserver-arg=--no-such-flag"},
			wantCode: 1,
			want:     []string{"kube-apiserver ended unexpectedly", "unknown flag: --no-such-flag"},
			wantLogs: true,
		},
		{
			name:     "a feature gate that kube-apiserver does not know",
			args:     []string{"--feature-gates=NoSuchGate=true"},
			wantCode: 1,
			want:     []string{"kube-apiserver ended unexpectedly", "unrecognized feature gate: NoSuchGate"},
			wantLogs: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			l := launch(t, tt.args...)
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
