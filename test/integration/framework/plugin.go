// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// PluginBinary is the binary that kubectl finds as its plugin "berth".
const PluginBinary = "kubectl-berth"

// PluginResult is what a command of the plugin came to.
type PluginResult struct {
	// Code is its exit code.
	Code           int
	Stdout, Stderr string
}

// Plugin runs kubectl in the repository's root as people do who have the plugin, and what
// completes its command line, in PATH. kubeconfig is what their environment names, and
// stdin the standard input.
func Plugin(tb testing.TB, kubeconfig, stdin string, args ...string) PluginResult {
	tb.Helper()
	links := tb.TempDir()
	for _, name := range []string{PluginBinary, "kubectl_complete-berth"} {
		if err := os.Symlink(Binary(tb, PluginBinary), filepath.Join(links, name)); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.CommandContext(tb.Context(), Binary(tb, KubectlBinary), args...)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "PATH="+links+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+links)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			tb.Fatal(err)
		}
	}
	return PluginResult{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}
