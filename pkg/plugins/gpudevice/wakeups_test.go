// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// activations returns how often each pod was activated so far, by its name.
func activations(profile *schedtest.Profile) map[string]int {
	counts := map[string]int{}
	for len(profile.Activated) > 0 {
		counts[<-profile.Activated]++
	}
	return counts
}

// TestActivationsAreCoalesced lets 64 members of a gang end while they wait at Permit: each of the
// pods that wait is activated once, after the pause of a back-off; and while members go on
// ending, no more often than the longest back-off allows.
func TestActivationsAreCoalesced(t *testing.T) {
	const members, waiting = 64, 300
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 16)}})
	clock := fakeClock(pl)
	h := handler(t, pl)
	end := func(from, to int) {
		for i := from; i < to; i++ {
			member := sharePod(fmt.Sprintf("member-%d", i), 100)
			add(t, profile, h, member)
			succeed(t, reserveOn(t, profile, member, "n"))
		}
		for i := from; i < to; i++ {
			member := sharePod(fmt.Sprintf("member-%d", i), 100)
			must(t, podStore(profile).Delete(member))
			h.OnDelete(member)
		}
	}
	for i := range waiting {
		add(t, profile, h, sharePod(fmt.Sprintf("waiting-%d", i), 1000))
	}
	expect := func(what string, pods int) {
		t.Helper()
		counts := activations(profile)
		for pod, count := range counts {
			if count != 1 {
				t.Errorf("%s: %s was activated %d times", what, pod, count)
			}
		}
		if len(counts) != pods {
			t.Errorf("%s: %d pods were activated, want %d", what, len(counts), pods)
		}
	}
	end(0, members)
	expect("at once", 0)
	clock.Step(initialWakeUpDelay)
	expect("after the first back-off", waiting)
	end(members, 2*members)
	clock.Step(initialWakeUpDelay)
	expect("too early for a second time", 0)
	clock.Step(initialWakeUpDelay)
	expect("after the second back-off", waiting)
	clock.Step(2 * maxWakeUpDelay)
	expect("without a reason", 0)
	end(2*members, 2*members+1)
	clock.Step(initialWakeUpDelay)
	expect("after a long time", waiting)
}

// TestNodeBecomesValidByItsCapacity converts a node as the README says. The kubelet takes the
// devices out of allocatable at once, for which kube-scheduler has an event, and out of capacity
// five minutes later, for which it has none.
func TestNodeBecomesValidByItsCapacity(t *testing.T) {
	plugin := corev1.ResourceName("nvidia.com/gpu")
	step := func(capacity, allocatable string) *corev1.Node {
		node := gpuNode("n", 4)
		node.Status.Capacity, node.Status.Allocatable = node.Status.Capacity.DeepCopy(), node.Status.Allocatable.DeepCopy()
		node.Status.Capacity[plugin], node.Status.Allocatable[plugin] = resource.MustParse(capacity), resource.MustParse(allocatable)
		return node
	}
	advertised, away, gone := step("4", "4"), step("4", "0"), step("0", "0")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{advertised}})
	clock := fakeClock(pl)
	logger := klog.Logger{}
	nodes, h := nodeStore(profile), pl.allocations.nodeHandler(logger)
	for _, pod := range []*corev1.Pod{sharePod("waiting", 700), makePod("plain"), sharePod("impossible", 9000)} {
		add(t, profile, handler(t, pl), pod)
	}
	update := func(old, node *corev1.Node) map[string]int {
		must(t, nodes.Update(node))
		h.OnUpdate(old, node)
		clock.Step(initialWakeUpDelay)
		return activations(profile)
	}
	if events := framework.NodeSchedulingPropertiesChange(gone, away); len(events) != 0 {
		t.Fatalf("kube-scheduler has events of its own: %v", events)
	}
	if got := update(advertised, away); len(got) != 0 {
		t.Errorf("a device plugin that may restart: %v were activated", got)
	}
	if got := device.ParseNode(away, pl.nodeKeys).Kind; got != device.NodeInvalid {
		t.Errorf("a node whose device plugin may restart is of kind %d", got)
	}
	if got := update(away, gone); len(got) != 1 || got["default/waiting"] != 1 {
		t.Errorf("the node is valid now: %v were activated", got)
	}
	if got := update(gone, annotated(gone.DeepCopy(), "example.com/heartbeat", "1")); len(got) != 0 {
		t.Errorf("nothing has changed: %v were activated", got)
	}
}

// TestHintOfANodeThatOnlySimulationsSaw: a pod that waits is woken by a node that became one for it
// since a cycle has looked at it last, but for simulations with a nominated pod.
func TestHintOfANodeThatOnlySimulationsSaw(t *testing.T) {
	logger := klog.Logger{}
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	before := labeled(gpuNode("n", 1), names.GPUSharingLabel, "false")
	live.AddNode(logger, before)
	must(t, live.UpdateSnapshot(logger, live.snapshot))
	waiting := sharePod("waiting", 500)
	pl.view(nodeInfo(t, profile, "n"), false)
	after := gpuNode("n", 1)
	live.UpdateNode(logger, before, after)
	must(t, live.UpdateSnapshot(logger, live.snapshot))
	pl.view(nodeInfo(t, profile, "n").Snapshot(), true)
	nominated := sharePod("nominated", 1000)
	nominated.Status.NominatedNodeName = "n"
	expectHint(t, pl.isSchedulableAfterPodDeleted, waiting, nominated, nil, fwk.Queue)
}

// TestPublishedSlicesAfterARestore: whatever its version, the informer's store has the slice as
// it is, for the handler and for hints that are ahead of it or behind.
func TestPublishedSlicesAfterARestore(t *testing.T) {
	_, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	o, node := &pl.publishedSlices, gpuNode("n", 1)
	o.store = cache.NewStore(cache.MetaNamespaceKeyFunc)
	slice := func(version string, devices int) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "s", UID: types.UID("s"), ResourceVersion: version},
			Spec:       resourcev1.ResourceSliceSpec{Driver: "gpu.nvidia.com", NodeName: &node.Name, Devices: make([]resourcev1.Device, devices)},
		}
	}
	put := func(s *resourcev1.ResourceSlice) {
		must(t, o.store.Update(s))
	}
	newer, restored := slice("100", 1), slice("5", 0)
	put(newer)
	o.observe(nil, newer)
	if !o.on(node) {
		t.Fatal("the node's devices are not published")
	}
	put(restored)
	expectHint(t, pl.isSchedulableAfterResourceSliceChange, sharePod("p", 100), newer, restored, fwk.Queue)
	if o.on(node) {
		t.Error("the hint did not take over what was restored")
	}
	again := slice("6", 1)
	put(again)
	o.observe(restored, again)
	o.observe(nil, newer) // late, of before the restore
	if !o.on(node) {
		t.Error("the handler did not take over what came after the restore")
	}
	must(t, o.store.Delete(again))
	o.observe(again, nil)
	if o.on(node) || !o.none() {
		t.Error("the slice is gone, and its node's devices count as published")
	}
}
