// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/compat"
)

// KubernetesVersion returns the version of Kubernetes that the module file of this minor
// release requires, such as v1.37.1: what every binary of ours must say that it is.
func KubernetesVersion(tb testing.TB) string {
	tb.Helper()
	file := "go.mod"
	if compat.Release == "1.36" {
		file = "hack/k8s-1.36.mod"
	}
	cmd := exec.CommandContext(tb.Context(), "go", "list", "-modfile="+file, "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = Root()
	output, err := cmd.Output()
	if err != nil {
		tb.Fatalf("asking %s for the version of Kubernetes: %v", file, err)
	}
	return strings.TrimSpace(string(output))
}
