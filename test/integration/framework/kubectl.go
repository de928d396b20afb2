// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
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
	return kubectl(tb, filepath.Join(c.LogDir, "kubectl-cache"), kubeconfig, stdin, args...)
}

// Kubectl runs kubectl in the repository's root against whatever cluster a
// kubeconfig leads to, and returns its standard output. A failure ends the test.
func Kubectl(tb testing.TB, kubeconfig string, args ...string) string {
	tb.Helper()
	output, err := kubectl(tb, tb.TempDir(), kubeconfig, "", args...)
	if err != nil {
		tb.Fatal(err)
	}
	return output
}

// kubectl runs kubectl with a cache that is neither the person's nor that of
// another cluster which had the same port.
func kubectl(tb testing.TB, cache, kubeconfig, stdin string, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), Binary(tb, KubectlBinary), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+cache)
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
