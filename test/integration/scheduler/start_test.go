// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestFirstStartByHand is what somebody does who has just got a cluster: the
// shipped profile, and --kubeconfig, which upstream ignores beside --config. The
// namespace of the lease is not there yet; leader election would wait for it for
// ever.
func TestFirstStartByHand(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 1})
	args := []string{"--config=config/berth-scheduler/all-plugins.yaml", "--kubeconfig=" + c.Kubeconfig, "--secure-port=0"}

	process := framework.StartProcess(t, framework.BerthScheduler, args...)
	if code := process.Wait(t, framework.WaitTimeout); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := `leaderElection.resourceNamespace: namespace "berth-system" does not exist`; !strings.Contains(process.Output(), want) {
		t.Errorf("want %q in\n%s", want, process.Output())
	}

	c.Kubectl(t, "create", "namespace", "berth-system")
	framework.StartProcess(t, framework.BerthScheduler, args...)
	c.CreatePod(t, framework.Pod("default", "by-hand", "berth-scheduler"))
	c.WaitForPodRunning(t, "default", "by-hand")
}
