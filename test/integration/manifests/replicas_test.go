// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestTwoReplicas runs both replicas of overlays/ha. Both are ready, one of them
// schedules, and when that one is killed without a chance to let go of the lease,
// the other one takes over.
func TestTwoReplicas(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 1})
	install.Apply(t, c, "overlays/ha")
	first := install.Start(t, c)
	first.WaitReady(t)
	leader := waitForHolder(t, c, names.Namespace, names.Scheduler, "")
	second := install.Start(t, c)
	second.WaitReady(t)

	schedule := func(name string) {
		t.Helper()
		pod := framework.Pod("default", name, "")
		pod.Spec.SchedulerName = names.Scheduler
		c.CreatePod(t, pod)
		c.WaitForPodScheduled(t, "default", name)
	}
	schedule("by-the-first")
	if now := waitForHolder(t, c, names.Namespace, names.Scheduler, ""); now != leader {
		t.Fatalf("the lease went from %s to %s while its holder was alive", leader, now)
	}

	first.Kill()
	schedule("by-the-second")
	waitForHolder(t, c, names.Namespace, names.Scheduler, leader)

	// A replica that is told to stop hands the lease over.
	if code := second.Stop(t); code != 0 {
		t.Errorf("after SIGTERM the second replica ended with code %d", code)
	}
	lease, err := c.Client.CoordinationV1().Leases(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the stopped replica still holds the lease as %s", *lease.Spec.HolderIdentity)
	}
}

// waitForHolder waits until somebody else than not holds the lease, and returns
// who.
func waitForHolder(t *testing.T, c *framework.Cluster, namespace, name, not string) string {
	t.Helper()
	var holder string
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("a holder of lease %s/%s", namespace, name), func() (bool, error) {
		lease, err := c.Client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, err
		}
		holder = *lease.Spec.HolderIdentity
		return holder != "" && holder != not, nil
	})
	return holder
}
