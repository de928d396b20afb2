// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestExplainNativeGang explains members of one of Kubernetes' own gangs, in the version
// that this API server serves: first of a PodGroup that is not there, then of a gang that
// is not whole.
func TestExplainNativeGang(t *testing.T) {
	c := startNative(t, nil, false)
	for _, name := range []string{"a", "b"} {
		c.CreatePod(t, member("train", framework.SharePod(name, "500")))
	}
	explain := func(want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), framework.Binary(t, "kubectl-berth"), "explain", "pod/a", "--kubeconfig", c.Kubeconfig, "--config", framework.Root()+"/"+gpuProfile)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), want) {
			t.Errorf("%v: want %q in\n%s", err, want, out)
		}
	}
	explain("PodGroup default/train (scheduling.k8s.io), which spec.schedulingGroup names, does not exist")
	createGroup(t, c, "train", 3, "")
	explain("gang default/train: 2 of its 3 members exist")
}
