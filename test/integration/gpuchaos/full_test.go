// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// TestKillsOnAFullPool places exactly as many halves as the pool has room for, and kills
// the scheduler on the way: five times with BERTH_LONG=1, twice in a small pool otherwise. Not a single half may be lost to what a
// scheduler that died had in mind: all pods are bound, and no device is allocated more than once.
func TestKillsOnAFullPool(t *testing.T) {
	nodes, devices, kills := 4, 4, 2
	if framework.Long() {
		nodes, devices, kills = 32, 8, 5
	}
	pods := 2 * nodes * devices
	c := startPool(t, nodes, devices)
	watch := gpuchurn.StartWatch(t, c)
	for i := range pods {
		c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("half-%d", i), "500"))
	}
	kubeconfig := c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler)
	launch := func() *framework.Scheduler {
		return c.LaunchScheduler(t, framework.Binary(t, framework.BerthScheduler), gpuProfile, framework.SchedulerOptions{Kubeconfig: kubeconfig})
	}
	s := launch()
	var at []int
	for kill := range kills {
		framework.WaitForCondition(t, 2*framework.WaitTimeout, fmt.Sprintf("kill %d", kill), func() (bool, error) {
			_, bound := watch.Counts()
			return bound > kill*pods/(kills+1), fmt.Errorf("%d pods are bound", bound)
		})
		s.Kill()
		_, bound := watch.Counts()
		at = append(at, bound)
		s = launch()
	}
	r, _ := gpuchurn.WaitSettled(t, c, pods)
	history, _, bindings := watch.History.Violations()
	if violations := slices.Concat(r.Violations, history); len(violations) > 0 {
		t.Error(violations)
	}
	var held int64
	for _, milli := range r.Allocated {
		held += milli
	}
	if held != int64(nodes*devices*1000) || r.Pending > 0 || bindings != pods {
		t.Errorf("%d thousandths of %d devices are held by %d pods, %d pods are pending, %d bindings were seen", held, nodes*devices, r.Bound, r.Pending, bindings)
	}
	s.WaitReady(t)
	gpuchurn.RequireView(t, c, s, names.Scheduler)
	t.Logf("%d of %d pods are bound on %d devices, %d pending, none allocated more than once; killed when %v were bound", r.Bound, pods, nodes*devices, r.Pending, at)
}
