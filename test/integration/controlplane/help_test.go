// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// The components bring flags of the whole process along. None of them may show,
// and none may do in a subcommand what it does in Kubernetes.
func TestFlagsOfTheComponentsStayInside(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the binaries: skipped under -short")
	}
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), framework.Binary(t, framework.BerthLocal), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("berth-local %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		return string(output)
	}
	want := run(t, "--version")
	if !strings.HasPrefix(want, "berth-local v") {
		t.Errorf("version: want it to begin with berth-local v, got %q", want)
	}
	for _, args := range [][]string{{}, {"up"}, {"kubeconfig"}} {
		t.Run(strings.Join(append([]string{"berth-local"}, args...), " "), func(t *testing.T) {
			if got := run(t, append(args, "--version")...); got != want {
				t.Errorf("--version: want %q, got %q", want, got)
			}
			help := run(t, append(args, "--help")...)
			if strings.Contains(help, "version information and quits") || !strings.Contains(help, "Print Berth's version") {
				t.Errorf("--help: want Berth's --version and not that of Kubernetes, got:\n%s", help)
			}
			_, global, _ := strings.Cut(help, "Global Flags:\n")
			for line := range strings.Lines(global) {
				if flag := strings.TrimSpace(line); strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--version ") {
					t.Errorf("--help: want --version to be the only global flag, got %s", flag)
				}
			}
		})
	}
}
