// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"os/exec"
	"strings"
	"testing"
)

// The verdict is worth something only if it shares nothing with what it judges,
// by whatever detour.
func TestImportsNoScheduler(t *testing.T) {
	const self = "github.com/berth-scheduler/berth/hack/demo/verdict"
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("listing the dependencies: %v", err)
	}
	dependencies := strings.Fields(string(output))
	if len(dependencies) < 100 {
		t.Fatalf("only %d dependencies were listed, so the list is not what it should be", len(dependencies))
	}
	for _, dependency := range dependencies {
		if dependency == self {
			continue
		}
		for _, denied := range []string{"github.com/berth-scheduler/", "k8s.io/kubernetes/", "k8s.io/kube-scheduler/", "k8s.io/client-go/"} {
			if strings.HasPrefix(dependency, denied) {
				t.Errorf("the verdict depends on %s", dependency)
			}
		}
	}
}
