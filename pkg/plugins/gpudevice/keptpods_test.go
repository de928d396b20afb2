// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestKeptPodsWakeOthers: when what pods that are kept back may hold is free, for whatever
// reason, each waiting pod is activated, and once for all of them.
func TestKeptPodsWakeOthers(t *testing.T) {
	const held, waiting = 10, 20
	webhook := errors.New("a webhook does not answer")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 16)}})
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pl.clock = clock
	h, c := handler(t, pl), pl.allocations
	for i := range waiting {
		add(t, profile, h, sharePod(fmt.Sprintf("waiting-%d", i), 1000))
	}
	var pods []*corev1.Pod
	for i := range held {
		pod := sharePod(fmt.Sprintf("held-%d", i), 1000)
		add(t, profile, h, pod)
		c.settle([]*corev1.Pod{pod}, []error{webhook})
		pods = append(pods, pod)
	}
	expect := func(what string, want int) {
		t.Helper()
		clock.Step(2 * maxWakeUpDelay)
		counts := activations(profile)
		for pod, count := range counts {
			if count != 1 {
				t.Errorf("%s: %s was activated %d times", what, pod, count)
			}
		}
		if len(counts) != want {
			t.Errorf("%s: %d pods were activated, want %d", what, len(counts), want)
		}
	}
	expect("kept back", 0)
	c.settle(pods[:1], []error{fmt.Errorf("%w (test)", errTooLarge)})
	expect("one is too large for a Binding too", held+waiting)
	c.settle(pods[1:2], []error{nil})
	expect("one is fenced", held+waiting)
	for _, pod := range pods[2:] {
		if err := profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Delete(pod); err != nil {
			t.Fatal(err)
		}
		h.OnDelete(pod)
	}
	expect("the others are deleted", waiting+2)
	if got := c.kept.count.Load(); got != 1 {
		t.Errorf("%d pods are kept back, want the one that is too large", got)
	}
}

// TestKeptPodThatIsGone: a pod that is gone before it is kept back, and that no event tells
// of any more, is forgotten by the next attempt.
func TestKeptPodThatIsGone(t *testing.T) {
	_, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	c, pod := pl.allocations, sharePod("gone", 1000)
	c.kept.byUID = map[types.UID]*keptPod{pod.UID: c.newKeptPod(pod, errors.New("a webhook does not answer"))}
	c.keptChangedLocked()
	if pods := c.kept.pods(c); len(pods) > 0 || c.kept.count.Load() > 0 || len(c.kept.load()) > 0 {
		t.Errorf("a pod that is gone is kept back: %d, and counts", c.kept.count.Load())
	}
}
