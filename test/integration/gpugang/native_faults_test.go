// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
)

// testMemberDeleted deletes a member of a gang whose devices are reserved, while its
// Binding is on its way.
func testMemberDeleted(t *testing.T, c *framework.Cluster, pool string) {
	gang := halfGang(t, c, pool, pool+"-gang", halves, "")
	victim := gang[halves/2]
	s := startNativeScheduler(t, c, gangGates, func(b *faultproxy.Binding) *faultproxy.Answer {
		if b.Pod == victim.Name && b.Nth == 1 {
			err := c.Client.CoreV1().Pods(b.Namespace).Delete(t.Context(), b.Pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
			if err != nil {
				t.Errorf("deleting the member: %v", err)
			}
		}
		return passOn(b)
	})
	create(t, c, gang...)
	c.WaitForPodGone(t, victim.Namespace, victim.Name)
	others := append(append([]*corev1.Pod{}, gang[:halves/2]...), gang[halves/2+1:]...)
	expectScheduled(t, c, others)
	requireDevicesRight(t, c)
	// One that comes for it has its place.
	another := member(pool+"-gang", inPool(pool, framework.SharePod(victim.Name, "500")))
	create(t, c, another)
	expectScheduled(t, c, []*corev1.Pod{another})
	requireAllGiven(t, c, pool)
	requireNotOvertaken(t, s)
}

// testSchedulerKilled kills the scheduler when some members of a gang are bound and the
// Bindings of others are on their way, and lets these arrive under the next one.
func testSchedulerKilled(t *testing.T, c *framework.Cluster, pool string) {
	const written = halves / 2
	gang := halfGang(t, c, pool, pool+"-gang", halves, "")
	var mu sync.Mutex
	var late []*faultproxy.Binding
	sent, held := 0, make(chan struct{})
	release := make(chan struct{})
	first := startNativeScheduler(t, c, gangGates, func(b *faultproxy.Binding) *faultproxy.Answer {
		mu.Lock()
		if sent < written {
			sent++
			defer mu.Unlock()
			return passOn(b)
		}
		late = append(late, b)
		if len(late) == halves-written {
			close(held)
		}
		mu.Unlock()
		<-release
		return nil
	})
	create(t, c, gang...)
	framework.WaitForCondition(t, framework.WaitTimeout, "half of the Bindings to be on their way", func() (bool, error) {
		select {
		case <-held:
			return true, nil
		default:
			mu.Lock()
			defer mu.Unlock()
			return false, fmt.Errorf("%d are written and %d on their way", sent, len(late))
		}
	})
	first.Kill()
	requireDevicesRight(t, c)
	// The first of them arrives before the next scheduler has begun. It is written if the
	// scheduler sent it for the pod's last version, with the nominatedNodeName.
	if answer := passOn(late[0]); answer == nil || answer.Code != http.StatusCreated && answer.Code != http.StatusConflict {
		t.Errorf("a Binding of the former scheduler was answered %+v", answer)
	}
	next := startNativeScheduler(t, c, gangGates, nil)
	expectScheduled(t, c, gang)
	requireAllGiven(t, c, pool)
	for _, b := range late[1:] {
		if answer := passOn(b); answer == nil || answer.Code != http.StatusConflict {
			t.Errorf("a Binding that came too late was answered %+v, want a conflict", answer)
		}
	}
	close(release)
	requireAllGiven(t, c, pool)
	requireNotOvertaken(t, next)
}
