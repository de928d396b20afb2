// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubectlberth runs `kubectl berth devices` and `kubectl berth check` as people
// do: as a plugin of kubectl, on real API servers, with the rights that they have there.
package kubectlberth

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// plugin is the binary that kubectl finds as its plugin "berth".
const plugin = "kubectl-berth"

// result is what a command came to.
type result struct {
	code           int
	stdout, stderr string
}

// kubectl runs kubectl in the repository's root, with the plugin and what completes its
// command line in PATH.
func kubectl(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	links := t.TempDir()
	for _, name := range []string{plugin, "kubectl_complete-berth"} {
		if err := os.Symlink(framework.Binary(t, plugin), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), framework.Binary(t, framework.KubectlBinary), args...)
	cmd.Dir = framework.Root()
	cmd.Env = append(os.Environ(), "PATH="+links+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+links)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		t.Fatal(err)
	}
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	if failed {
		r.code = exit.ExitCode()
	}
	return r
}

// words are the lines of a text, without what only aligns them.
func words(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
