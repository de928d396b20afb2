// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestOfflineChecks runs the binary without any cluster, and with no folder for
// temporary files, as the shipped pod has none.
func TestOfflineChecks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries: skipped under -short")
	}
	const (
		valid   = "--config=config/berth-scheduler/gpu.yaml"
		invalid = "--config=cmd/berth-scheduler/testdata/wrong/filter-only.yaml"
	)
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(dir, "written.yaml")
	write := []string{"--kubeconfig=" + kubeconfig, "--secure-port=0", "--write-config-to=" + written}
	tests := []struct {
		name        string
		args        []string
		wantCode    int
		want        string
		wantWritten bool
	}{
		{name: "a valid file", args: []string{valid, "--validate"}, want: "config/berth-scheduler/gpu.yaml: valid; serves berth-scheduler\n"},
		{name: "a file that a start refuses", args: []string{invalid, "--validate"}, wantCode: 1, want: "profiles[0].plugins"},
		{name: "a flag that a start refuses", args: []string{valid, "--validate", "--secure-port=70000"}, wantCode: 1, want: "--secure-port"},
		{name: "no file", args: []string{"--validate"}, wantCode: 1, want: "--config: required"},
		{name: "both at once", args: append([]string{valid, "--validate"}, write...), wantCode: 1, want: "--write-config-to"},
		{name: "writing what a start refuses", args: append([]string{invalid}, write...), wantCode: 1, want: "profiles[0].plugins"},
		{name: "writing", args: append([]string{valid}, write...), want: "", wantWritten: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_ = t.TempDir() // where the process's log goes is there before
			t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
			process := framework.StartProcess(t, framework.BerthScheduler, tt.args...)
			if code := process.Wait(t, framework.WaitTimeout); code != tt.wantCode {
				t.Errorf("exit code %d, want %d", code, tt.wantCode)
			}
			if !strings.Contains(process.Output(), tt.want) {
				t.Errorf("want %q in\n%s", tt.want, process.Output())
			}
			content, err := os.ReadFile(written)
			if got := err == nil; got != tt.wantWritten {
				t.Errorf("a file was written: %t, want %t", got, tt.wantWritten)
			}
			if tt.wantWritten && !strings.Contains(string(content), "kubeconfig: "+kubeconfig) {
				t.Errorf("the file does not have the kubeconfig of the command line:\n%s", content)
			}
		})
	}
}
