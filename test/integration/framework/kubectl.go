// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/process"
)

// Kubectl runs kubectl as the administrator and returns its standard output. A
// failure ends the test.
func (c *Cluster) Kubectl(tb testing.TB, args ...string) string {
	tb.Helper()
	output, err := c.KubectlAs(tb, c.Kubeconfig, "", args...)
	if err != nil {
		tb.Fatal(err)
	}
	return output
}

// KubectlErr runs kubectl as the administrator, expects it to fail, and returns
// what it wrote to standard error.
func (c *Cluster) KubectlErr(tb testing.TB, args ...string) string {
	tb.Helper()
	output, err := c.KubectlAs(tb, c.Kubeconfig, "", args...)
	if err == nil {
		tb.Fatalf("kubectl %s: want an error, got none and the output:\n%s", strings.Join(args, " "), output)
	}
	return err.Error()
}

// KubectlAs runs kubectl in the repository's root with any kubeconfig and with
// stdin as its standard input. The error holds what it wrote to standard error.
func (c *Cluster) KubectlAs(tb testing.TB, kubeconfig, stdin string, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), Binary(tb, KubectlBinary), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Dir = Root()
	// No cache of the person's, and none between clusters that shared a port.
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(c.LogDir, "kubectl-cache"))
	cmd.Stdin = strings.NewReader(stdin)
	return process.Output(cmd)
}

// Apply applies YAML text as the administrator.
func (c *Cluster) Apply(tb testing.TB, text string) {
	tb.Helper()
	if _, err := c.KubectlAs(tb, c.Kubeconfig, text, "apply", "-f", "-"); err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
}

// ApplyManifests applies files, folders and kustomizations of the repository, in
// this order. Paths are relative to its root.
func (c *Cluster) ApplyManifests(tb testing.TB, paths ...string) {
	tb.Helper()
	for _, path := range paths {
		path = fromRoot(path)
		flag := "-f"
		if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
			flag = "-k"
		}
		c.Kubectl(tb, "apply", flag, path)
	}
}
