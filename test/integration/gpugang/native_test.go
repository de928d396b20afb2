// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestNativeGangs places gangs of shares as Kubernetes' own GangScheduling does it: it
// tries the members of a PodGroup one after the other in its snapshot, takes all of that
// back, and if the group fits, reserves for each of them once more while the snapshot
// shows none.
func TestNativeGangs(t *testing.T) {
	var nodes []corev1.Node
	for _, pool := range []string{"fit", "preempting", "singly", "deleted", "killed"} {
		nodes = append(nodes, pooled(pool+"-one", gpuNode(pool, gangDevices)))
		for i := range gangDevices {
			nodes = append(nodes, pooled(pool+"-several", gpuNode(fmt.Sprintf("%s-%d", pool, i), 1)))
		}
	}
	c := startNative(t, slices.Concat(nodes, newRandomNodes(), newSimulatedNodes()), false)

	both := func(t *testing.T, name string, test func(t *testing.T, pool string)) {
		t.Helper()
		for _, where := range []string{"one", "several"} {
			t.Run(where, func(t *testing.T) { test(t, name+"-"+where) })
		}
	}
	t.Run("fit", func(t *testing.T) {
		startNativeScheduler(t, c, gangGates, nil)
		both(t, "fit", func(t *testing.T, pool string) { testFit(t, c, pool) })
	})
	t.Run("preempting as a group", func(t *testing.T) {
		s := startNativeScheduler(t, c, gangGates, nil)
		both(t, "preempting", func(t *testing.T, pool string) { testPreemptingGroup(t, c, s, pool) })
	})
	t.Run("preempting singly", func(t *testing.T) {
		if singleGates == "" {
			t.Skip("no member of a gang preempts on its own from Kubernetes 1.37 on")
		}
		s := startNativeScheduler(t, c, singleGates, nil)
		both(t, "singly", func(t *testing.T, pool string) { testPreemptingSingly(t, c, s, pool) })
	})
	t.Run("member deleted", func(t *testing.T) {
		both(t, "deleted", func(t *testing.T, pool string) { testMemberDeleted(t, c, pool) })
	})
	t.Run("scheduler killed", func(t *testing.T) {
		both(t, "killed", func(t *testing.T, pool string) { testSchedulerKilled(t, c, pool) })
	})
	t.Run("sample", func(t *testing.T) { testSample(t, c) })
	t.Run("random", func(t *testing.T) { testRandomGangs(t, c) })
	t.Run("simulated", func(t *testing.T) { testSimulatedGangs(t, c) })
}

const (
	// gangDevices is how many devices each pool has, on one node or on several.
	gangDevices = 3
	// halves is how many pods fill them with half a device each.
	halves = 2 * gangDevices
)

// halfGang creates a PodGroup, and returns members of half a device each.
func halfGang(t *testing.T, c *framework.Cluster, pool, name string, size int, priorityClass string) []*corev1.Pod {
	t.Helper()
	createGroup(t, c, name, size, priorityClass)
	var pods []*corev1.Pod
	for i := range size {
		pod := member(name, inPool(pool, framework.SharePod(fmt.Sprintf("%s-%d", name, i), "500")))
		pod.Spec.PriorityClassName = priorityClass
		pods = append(pods, pod)
	}
	return pods
}

// testFit has a gang be refused, be tried again and fit, and another one wait for it.
func testFit(t *testing.T, c *framework.Cluster, pool string) {
	// A tenth of a device is taken: five of six halves fit, and the gang is refused.
	single := inPool(pool, framework.SharePod(pool+"-single", "100"))
	create(t, c, single)
	expectScheduled(t, c, []*corev1.Pod{single})
	gang := halfGang(t, c, pool, pool+"-gang", halves, "")
	create(t, c, gang...)
	expectUnschedulable(t, c, gang)
	if got := bound(t, c, gang); len(got) > 0 {
		t.Errorf("a gang that does not fit is bound in part: %v", got)
	}
	requireMessages(t, c, pool+"-gang", gang)
	requireDevicesRight(t, c)

	remove(t, c, single)
	expectScheduled(t, c, gang)
	requireAllGiven(t, c, pool)

	next := halfGang(t, c, pool, pool+"-next", halves, "")
	create(t, c, next...)
	expectUnschedulable(t, c, next)
	requireDevicesRight(t, c)
	remove(t, c, gang...)
	expectScheduled(t, c, next)
	requireAllGiven(t, c, pool)
}

// testSample has a Job create the gang of the sample, somewhere.
func testSample(t *testing.T, c *framework.Cluster) {
	startNativeScheduler(t, c, gangGates, nil)
	c.Kubectl(t, "apply", "--validate=strict", "-f", install.Path(nativeSample))
	for _, pod := range jobPods(t, c, "gang", gangSize) {
		if pod.Spec.SchedulingGroup == nil {
			t.Errorf("pod %s has no group", pod.Name)
		}
		c.WaitForPodScheduled(t, pod.Namespace, pod.Name)
	}
	requireDevicesRight(t, c)
	c.Kubectl(t, "delete", "--wait", "--cascade=foreground", "-f", install.Path(nativeSample))
}

// requireMessages fails unless each member of a gang that does not fit is told that it had
// a place and others had not, or why it had none.
func requireMessages(t *testing.T, c *framework.Cluster, group string, gang []*corev1.Pod) {
	t.Helper()
	without := 0
	for _, pod := range gang {
		message := framework.PodScheduledCondition(get(t, c, pod.Name)).Message
		switch {
		case strings.Contains(message, "this pod would fit, but too few other members of PodGroup default/"+group+" do"):
		case strings.Contains(message, "didn't have enough free device share") && !strings.Contains(message, "preemption"):
			without++
		default:
			t.Errorf("pod %s is told %q", pod.Name, message)
		}
	}
	if without == 0 || without == len(gang) {
		t.Errorf("%d of %d members are told that they had no place", without, len(gang))
	}
}
