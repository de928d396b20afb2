// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// profileNamed writes a copy of the shipped profile for another schedulerName, and
// returns its path.
func profileNamed(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(framework.Root(), gpuProfile))
	if err != nil {
		t.Fatal(err)
	}
	shipped := "schedulerName: " + names.Scheduler
	if strings.Count(string(content), shipped) != 1 {
		t.Fatalf("%s has not one profile", gpuProfile)
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(string(content), shipped, "schedulerName: "+name, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// barrier holds Bindings until a number of them have come, and lets all go.
type barrier struct {
	mu      sync.Mutex
	missing int
	open    chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{missing: n, open: make(chan struct{})} }

func (b *barrier) pass(done <-chan struct{}) {
	b.mu.Lock()
	b.missing--
	if b.missing == 0 {
		close(b.open)
	}
	b.mu.Unlock()
	select {
	case <-b.open:
	case <-done:
	}
}

// raceOfTwo lets two schedulers decide on the same devices before either has
// seen what the other one did: no Binding is let through before all are decided.
// Every device is then allocated more than once, and nothing can prevent it; it must be
// found out, and told on both pods.
func raceOfTwo(t *testing.T) {
	const devices = 12
	competing := []string{"berth-one", "berth-two"}
	c := startPool(t, devices/2, 2)
	wall := newBarrier(2 * devices)
	var schedulers []*framework.Scheduler
	for _, schedulerName := range competing {
		for i := range devices {
			pod := gpuchurn.SharePod(fmt.Sprintf("%s-%d", schedulerName, i), "600")
			pod.Spec.SchedulerName = schedulerName
			c.CreatePod(t, pod)
		}
	}
	for _, schedulerName := range competing {
		schedulers = append(schedulers, startBehind(t, c, profileNamed(t, schedulerName), faultproxy.Hooks{
			Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
				wall.pass(t.Context().Done())
				return faultproxy.PassOn(b)
			},
		}))
	}
	r, _ := gpuchurn.WaitSettled(t, c, 2*devices, competing...)
	over := r.Violations.Of(oracle.Overcommitted)
	if len(over) != devices || len(r.Violations) != devices {
		t.Fatalf("%d devices are allocated more than once, want all %d, and no other violation\n%s", len(over), devices, r.Violations)
	}
	for _, violation := range over {
		requireTold(t, c, violation)
	}
	for i, s := range schedulers {
		requireMetric(t, s, "berth_gpudevice_assignment_conflicts_total", devices)
		// Each has closed all nodes: the other one gives shares there.
		gpuchurn.RequireView(t, c, s, competing[i], competing...)
		requireMetric(t, s, "berth_gpudevice_blocked_nodes", devices/2)
	}

	// An overcommitted device counts as full. When the other scheduler's pods of a node are
	// gone, the node is open again; what is left of its devices is free, and no more.
	late := gpuchurn.SharePod("late", "400")
	late.Spec.SchedulerName = competing[0]
	c.CreatePod(t, late)
	c.WaitForPodUnschedulable(t, namespace, late.Name)
	node, _, _ := strings.Cut(over[0].Object, "/")
	gone := 0
	for _, violation := range over {
		if on, _, _ := strings.Cut(violation.Object, "/"); on != node {
			continue
		}
		for _, pod := range violation.Pods {
			if _, name, _ := strings.Cut(pod, "/"); strings.HasPrefix(name, competing[1]) {
				forceDelete(t, c, name)
				gone++
			}
		}
	}
	if pod := c.WaitForPodScheduled(t, namespace, late.Name); pod.Spec.NodeName != node {
		t.Errorf("the pod that waited is on %s, and the devices that were freed on %s", pod.Spec.NodeName, node)
	}
	if r, _ = gpuchurn.WaitSettled(t, c, 2*devices-gone+1, competing...); len(r.Violations) != devices-gone {
		t.Errorf("want %d devices allocated more than once\n%s", devices-gone, r.Violations)
	}
	for i, s := range schedulers {
		gpuchurn.RequireView(t, c, s, competing[i], competing...)
	}
}

// requireTold waits until each pod on an overcommitted device has an event that
// names the device, and one of the events names all of the pods: the one on the
// pod that was seen last.
func requireTold(t *testing.T, c *framework.Cluster, violation oracle.Violation) {
	t.Helper()
	node, index, _ := strings.Cut(violation.Object, "/")
	framework.WaitForCondition(t, framework.WaitTimeout, "the pods to be told: "+violation.String(), func() (bool, error) {
		notes := warned(t, c, "GPUDeviceConflict")
		complete := false
		for _, pod := range violation.Pods {
			_, name, _ := strings.Cut(pod, "/")
			if !strings.Contains(strings.Join(notes[name], "\n"), fmt.Sprintf("Device(s) %s of node %q", index, node)) {
				return false, fmt.Errorf("pod %s has the events %q", name, notes[name])
			}
			for _, note := range notes[name] {
				if !slices.ContainsFunc(violation.Pods, func(pod string) bool { return !strings.Contains(note, pod) }) {
					complete = true
				}
			}
		}
		return complete, fmt.Errorf("none of the events names all pods: %q", notes)
	})
}
