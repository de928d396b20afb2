// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// fill gives all devices of the pool to pods of half a device, without a gang.
func fill(t *testing.T, c *framework.Cluster, pool, name string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i := range halves {
		pods = append(pods, inPool(pool, framework.SharePod(fmt.Sprintf("%s-%s-%d", pool, name, i), "500")))
	}
	create(t, c, pods...)
	expectScheduled(t, c, pods)
	return pods
}

// left returns how many of the pods are there.
func left(t *testing.T, c *framework.Cluster, pods []*corev1.Pod) int {
	t.Helper()
	list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = list.Items[i].DeletionTimestamp == nil
	}
	count := 0
	for _, pod := range pods {
		if there[pod.Name] {
			count++
		}
	}
	return count
}

// testPreemptingGroup has gangs of higher priority evict what they need, and a gang as a
// whole. A gang that is tried again while its victims are going may evict more than those:
// kube-scheduler 1.36 nominates no node for its members.
func testPreemptingGroup(t *testing.T, c *framework.Cluster, s *framework.Scheduler, pool string) {
	low := fill(t, c, pool, "low")
	gang := halfGang(t, c, pool, pool+"-gang", halves-2, urgent)
	create(t, c, gang...)
	expectScheduled(t, c, gang)
	requireDevicesRight(t, c)
	t.Logf("%d of %d pods of lower priority are left, 2 could be", left(t, c, low), len(low))
	requireNotOvertaken(t, s)
	remove(t, c, append(gang, low...)...)

	// Whole devices: who is evicted must have been on the same ones.
	low = fill(t, c, pool, "again")
	createGroup(t, c, pool+"-whole", 2, urgent)
	var whole []*corev1.Pod
	for i := range 2 {
		pod := member(pool+"-whole", inPool(pool, framework.SharePod(fmt.Sprintf("%s-whole-%d", pool, i), "1000")))
		pod.Spec.PriorityClassName = urgent
		whole = append(whole, pod)
	}
	create(t, c, whole...)
	expectScheduled(t, c, whole)
	requireDevicesRight(t, c)
	t.Logf("%d of %d pods of lower priority are left, two on one device could be", left(t, c, low), len(low))
	remove(t, c, append(whole, low...)...)

	// A gang makes place as a whole.
	victims := halfGang(t, c, pool, pool+"-victims", halves, "")
	create(t, c, victims...)
	expectScheduled(t, c, victims)
	small := halfGang(t, c, pool, pool+"-small", 2, urgent)
	create(t, c, small...)
	expectScheduled(t, c, small)
	requireDevicesRight(t, c)
	if got := left(t, c, victims); got != 0 {
		t.Errorf("%d members are left of a gang that is evicted as a whole", got)
	}
	remove(t, c, small...)
}

// testPreemptingSingly has a gang make room for itself where each member preempts on its
// own.
func testPreemptingSingly(t *testing.T, c *framework.Cluster, s *framework.Scheduler, pool string) {
	low := fill(t, c, pool, "low")
	gang := halfGang(t, c, pool, pool+"-gang", halves-2, urgent)
	create(t, c, gang...)
	expectScheduled(t, c, gang)
	requireDevicesRight(t, c)
	t.Logf("%d of %d pods of lower priority are left, 2 could be", left(t, c, low), len(low))
	requireNotOvertaken(t, s)
}
