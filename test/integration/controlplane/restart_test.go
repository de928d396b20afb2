// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/controlplane"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestComponentKilledAlone kills each component under a running scheduler and a
// running Deployment. Nothing else may die, and after a restart everything goes on.
func TestComponentKilledAlone(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 3})
	scheduler := c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.Kubectl(t, "create", "namespace", "shop")
	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 2)

	replicas := 2
	for _, victim := range []controlplane.Component{
		controlplane.APIServer, controlplane.Etcd, controlplane.ControllerManager, controlplane.Kwok,
	} {
		t.Run(string(victim), func(t *testing.T) {
			before := pids(c)
			if err := c.KillComponent(victim); err != nil {
				t.Fatal(err)
			}
			if pid := c.PID(victim); pid != 0 {
				t.Errorf("process id of the killed component: want 0, got %d", pid)
			}
			if err := c.KillComponent(victim); err == nil {
				t.Errorf("killing it again: want an error, got none")
			}
			if victim == controlplane.APIServer {
				c.KubectlErr(t, "get", "namespaces")
			}
			if err := c.RestartComponent(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			after := pids(c)
			for _, component := range controlplane.Components() {
				if same := before[component] == after[component]; same == (component == victim) {
					t.Errorf("process id of %s: %d before, %d after", component, before[component], after[component])
				}
			}
			replicas++
			c.Kubectl(t, "scale", "--namespace=shop", "deployment/web", "--replicas", string(rune('0'+replicas)))
			waitForPods(t, c, replicas, replicas)
			select {
			case failure := <-c.Failed():
				t.Errorf("a component died: %v", failure)
			case <-scheduler.Done():
				t.Errorf("the scheduler died")
			default:
			}
		})
	}
}

func pids(c *framework.Cluster) map[controlplane.Component]int {
	all := map[controlplane.Component]int{}
	for _, component := range controlplane.Components() {
		all[component] = c.PID(component)
	}
	return all
}
