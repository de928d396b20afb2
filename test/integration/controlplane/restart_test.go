// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestComponentKilledAlone kills each component under a running scheduler and a
// running Deployment. Nothing else may die, and after a restart everything goes on,
// until the Deployment and its namespace are deleted.
func TestComponentKilledAlone(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 3})
	c.Kubectl(t, "create", "namespace", "shop")
	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 0) // made by the controllers, and nobody binds them
	scheduler := c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	waitForPods(t, c, 2, 2)
	c.Kubectl(t, "rollout", "status", "--namespace=shop", "--timeout=60s", "deployment/web")

	replicas := 2
	for _, component := range []localcluster.Component{
		localcluster.APIServer, localcluster.Etcd, localcluster.ControllerManager, localcluster.Kwok,
	} {
		t.Run(string(component), func(t *testing.T) {
			before := pids(c)
			if err := c.KillComponent(component); err != nil {
				t.Fatal(err)
			}
			if pid := c.PID(component); pid != 0 {
				t.Errorf("process id of the killed component: want 0, got %d", pid)
			}
			if err := c.KillComponent(component); err == nil {
				t.Errorf("killing it again: want an error, got none")
			}
			if component == localcluster.APIServer {
				c.KubectlErr(t, "get", "namespaces")
			}
			if err := c.RestartComponent(t.Context(), component); err != nil {
				t.Fatal(err)
			}
			after := pids(c)
			for _, other := range localcluster.Components() {
				if same := before[other] == after[other]; same == (other == component) {
					t.Errorf("process id of %s: %d before, %d after", other, before[other], after[other])
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

	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 2)
	// Without --wait=false: kubectl returns when the objects are gone.
	c.Kubectl(t, "delete", "--namespace=shop", "deployment/web")
	waitForPods(t, c, 0, 0)
	// A namespace goes with everything in it.
	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 2)
	c.Kubectl(t, "delete", "namespace", "shop", "--timeout=60s")
}

func pids(c *framework.Cluster) map[localcluster.Component]int {
	all := map[localcluster.Component]int{}
	for _, component := range localcluster.Components() {
		all[component] = c.PID(component)
	}
	return all
}
