// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestKeptPodsWakeOthers: when what pods that are kept back may hold is free, for whatever
// reason, each waiting pod is activated, and once for all of them.
func TestKeptPodsWakeOthers(t *testing.T) {
	const held, waiting = 10, 20
	webhook := errors.New("a webhook does not answer")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 16)}})
	clock := fakeClock(pl)
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
		must(t, podStore(profile).Delete(pod))
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

// keepBack has the plugin keep back so many pods that ask for that much each.
func keepBack(tb testing.TB, profile *schedtest.Profile, pl *GPUDevice, count int, milli func(i int) int) {
	tb.Helper()
	pods := make([]*corev1.Pod, 0, count)
	for i := range count {
		pod := sharePod(fmt.Sprintf("kept-%d", i), milli(i))
		store(tb, profile, pod)
		pods = append(pods, pod)
	}
	pl.allocations.settle(pods, slices.Repeat([]error{errors.New("a webhook does not answer")}, count))
}

// TestNoEvictionForKeptPods: where nothing but pods that are kept back is in the way, evicting
// others is no help that preemption may count on, and the reason says what is waited for.
func TestNoEvictionForKeptPods(t *testing.T) {
	nodes := []*corev1.Node{gpuNode("n", 1)}
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: nodes, Pods: []*corev1.Pod{boundPod("victim", 400, "n", "0")}})
	keepBack(t, profile, pl, 1, func(int) int { return 300 })
	for milli, want := range map[int]struct {
		code   fwk.Code
		reason device.Reason
	}{
		300: {fwk.Success, device.Fits},
		500: {fwk.UnschedulableAndUnresolvable, device.KeptForUnfenced},
		700: {fwk.Unschedulable, device.NoShare},
	} {
		pod := sharePod("p", milli)
		status := pl.Filter(t.Context(), preFilterOrSkip(t, profile, pod), pod, nodeInfo(t, profile, "n"))
		if status.Code() != want.code || status.Message() != reasonTexts[want.reason] {
			t.Errorf("%d: got %v, want %v with %q", milli, status, want.code, reasonTexts[want.reason])
		}
	}
}

// TestNodeThatStopsSharing: a pod that is kept back may still be bound to a node that was shared
// when a former process chose it. The node takes no pod of a device plugin until it is not.
func TestNodeThatStopsSharing(t *testing.T) {
	shared, never := gpuNode("n", 2), pluginNode("never-shared", a100, 2)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{shared, never}})
	live := newLiveCache(t, profile)
	live.AddNode(klog.Background(), shared)
	live.AddNode(klog.Background(), never)
	nodes, kept := pl.allocations.nodeHandler(klog.Background()), sharePod("kept-0", 300)
	keepBack(t, profile, pl, 1, func(int) int { return 300 })
	verdict := func(node string) string {
		must(t, live.UpdateSnapshot(klog.Background(), live.snapshot))
		whole := makePod("whole", "nvidia.com/gpu", "1")
		status := pl.Filter(t.Context(), preFilterOrSkip(t, profile, whole), whole, nodeInfo(t, profile, node))
		if status.Code() == fwk.Unschedulable {
			t.Errorf("%v: evicting pods does not help", status)
		}
		return status.Message()
	}
	unclear, stopped := labeled(gpuNode("n", 2), names.GPUSharingLabel, "yes"), pluginNode("n", a100, 2)
	update := func(old, node *corev1.Node) {
		live.UpdateNode(klog.Background(), old, node)
		nodes.OnUpdate(old, node)
	}
	update(shared, unclear)
	update(unclear, stopped)
	if got := verdict("n"); got != reasonTexts[device.KeptForUnfenced] {
		t.Errorf("a node that has stopped sharing: got %q", got)
	}
	if got := verdict("never-shared"); got != "" {
		t.Errorf("a node that was never shared: got %q", got)
	}
	pl.allocations.settle([]*corev1.Pod{kept}, []error{nil})
	if got := verdict("n"); got != "" {
		t.Errorf("when the pod is fenced: got %q", got)
	}
	pl.allocations.settle([]*corev1.Pod{kept}, []error{errors.New("a webhook does not answer")})
	update(stopped, shared)
	update(shared, stopped)
	update(stopped, shared)
	if got := verdict("n"); got != reasonTexts[device.NodeIsShared] {
		t.Errorf("a node that is shared again: got %q", got)
	}
}

// TestKeptPodsWakeAll: pods of a device plugin wait for pods that are kept back, too.
func TestKeptPodsWakeAll(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{pluginNode("n", a100, 1)}})
	clock := fakeClock(pl)
	store(t, profile, makePod("plain"))
	store(t, profile, makePod("whole", "nvidia.com/gpu", "1"))
	keepBack(t, profile, pl, 1, func(int) int { return 300 })
	pl.allocations.settle([]*corev1.Pod{sharePod("kept-0", 300)}, []error{nil})
	clock.Step(2 * maxWakeUpDelay)
	got := activations(profile)
	if len(got) != 2 || got["default/whole"] != 1 || got["default/kept-0"] != 1 {
		t.Errorf("activated were %v, want the pod that was kept back and that of the device plugin", got)
	}
}

// One operation is one node that has changed, beside pods that are kept back: the cost is by
// their different requests, 8 here.
func BenchmarkKeptPods(b *testing.B) {
	for _, count := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("kept=%d/gpus=8", count), func(b *testing.B) {
			profile, pl := startProfile(b, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 8)}})
			keepBack(b, profile, pl, count, func(i int) int { return 1 + i%8 })
			node, state := nodeInfo(b, profile, "n"), &nodeState{}
			known := pl.view(node, false)
			b.ReportAllocs()
			for b.Loop() {
				if v := pl.computeView(node, known, state, ""); v.withoutKept == nil {
					b.Fatal("the pods do not count")
				}
			}
		})
	}
}
