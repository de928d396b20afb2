// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os/exec"
	"strings"
	"testing"
)

// KubernetesVersion returns the version of Kubernetes that go.mod requires, such
// as v1.36.3: what every binary of ours must say that it is.
func KubernetesVersion(tb testing.TB) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = Root()
	output, err := cmd.Output()
	if err != nil {
		tb.Fatalf("asking go.mod for the version of Kubernetes: %v", err)
	}
	return strings.TrimSpace(string(output))
}
