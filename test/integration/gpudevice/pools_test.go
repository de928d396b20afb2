// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// closesToAnother starts another scheduler in a cluster with node gpu, which berth-scheduler
// shares: one with the same pool, which whoever installed it was not kept from. At the first
// share that it gives, berth-scheduler gives none on that node any more.
func closesToAnother(t *testing.T, c *framework.Cluster) {
	t.Helper()
	c.Kubectl(t, "label", "node", "larger", names.GPUSharingLabel+"=false", "--overwrite")
	c.StartBerthScheduler(t, rivalProfile(t), framework.SchedulerOptions{})
	theirs := framework.SharePod("theirs", "100")
	theirs.Spec.SchedulerName = "rival"
	if got, _, _ := strings.Cut(c.PlacePod(t, theirs), "/"); got != "gpu" {
		t.Fatalf("the pod of the other scheduler is on %s", got)
	}
	note := c.WaitForEvent(t, metav1.NamespaceDefault, "gpu", "GPUPoolConflict", "")
	for _, text := range []string{`"rival" gave pod default/theirs a share`, `"berth-scheduler" gives no new share of this node until the pod is gone`, "GPUDeviceArgs.pool"} {
		if !strings.Contains(note, text) {
			t.Errorf("want %q in %q", text, note)
		}
	}
	c.CreatePod(t, framework.SharePod("ours", "100"))
	c.WaitForEvent(t, metav1.NamespaceDefault, "ours", "FailedScheduling", "two schedulers serve one GPU pool")

	// The pod is gone: the node is open again.
	c.Kubectl(t, "delete", "pod", "theirs", "--force", "--grace-period=0")
	c.WaitForPodScheduled(t, metav1.NamespaceDefault, "ours")

	// Now it is the other one that knows, and keeps off.
	again := framework.SharePod("theirs-again", "100")
	again.Spec.SchedulerName = "rival"
	c.CreatePod(t, again)
	c.WaitForEvent(t, metav1.NamespaceDefault, "theirs-again", "FailedScheduling", "two schedulers serve one GPU pool")

	// The label says that the node is neither's, and then that it is theirs again.
	c.Kubectl(t, "label", "node", "gpu", names.GPUPoolLabel+"=elsewhere")
	later := framework.SharePod("later", "100")
	later.Spec.SchedulerName = "rival"
	c.CreatePod(t, later)
	c.WaitForEvent(t, metav1.NamespaceDefault, "later", "FailedScheduling", "no node shares its devices")
	c.Kubectl(t, "label", "node", "gpu", names.GPUPoolLabel+"-")
	c.WaitForPodScheduled(t, metav1.NamespaceDefault, "theirs-again")
	c.WaitForPodScheduled(t, metav1.NamespaceDefault, "later")
}

// rivalProfile is the profile of another instance.
func rivalProfile(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(framework.Root(), gpuProfile))
	if err != nil {
		t.Fatal(err)
	}
	rival := strings.Replace(string(content), "schedulerName: "+names.Scheduler, "schedulerName: rival", 1)
	if rival == string(content) {
		t.Fatalf("%s does not name %s", gpuProfile, names.Scheduler)
	}
	path := filepath.Join(t.TempDir(), "rival.yaml")
	if err := os.WriteFile(path, []byte(rival), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
