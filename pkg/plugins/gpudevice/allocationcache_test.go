// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// handler returns the handler of the allocation cache's pod events, to call it directly.
func handler(tb testing.TB, pl *GPUDevice) cache.ResourceEventHandler {
	tb.Helper()
	logger, _ := ktesting.NewTestContext(tb)
	return pl.allocations.podHandler(logger)
}

// add stores a pod as the informer does, and tells the handler of it.
func add(tb testing.TB, profile *schedtest.Profile, h cache.ResourceEventHandler, pod *corev1.Pod) {
	tb.Helper()
	store(tb, profile, pod)
	h.OnAdd(pod, false)
}

// The first record that is seen counts. Whatever is done to it later is reported
// and frees nothing.
func TestTheFirstRecordCounts(t *testing.T) {
	first := boundPod("p", 500, "n", "0")
	without := first.DeepCopy()
	without.Annotations = nil
	tests := []struct {
		name   string
		edited *corev1.Pod
		want   bool
	}{
		{"another device", boundPod("p", 500, "n", "1"), true},
		{"no record", without, true},
		{"a malformed record", annotated(first.DeepCopy(), names.GPUAssignedAnnotation, "x"), true},
		{"another device to read", annotated(first.DeepCopy(), "gpu.berth.dev/main", "all"), true},
		{"one more container", annotated(first.DeepCopy(), "gpu.berth.dev/other", "1"), true},
		{"something else", annotated(first.DeepCopy(), "example.com/a", "1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}, Pods: []*corev1.Pod{tt.edited}})
			pl.allocations.removePod(first.UID)
			h := handler(t, pl)
			h.OnAdd(first, false)
			drainEvents(profile, "")
			h.OnUpdate(first, tt.edited)
			if got := hasEvent(profile, reasonEdited); got != tt.want {
				t.Errorf("event: want %t, got %t", tt.want, got)
			}
			// The NodeInfo has the edited pod.
			expectFree(t, profile, pl, 500, 1000)
			h.OnDelete(cache.DeletedFinalStateUnknown{Obj: tt.edited})
			if pl.allocations.get(first.UID) != nil {
				t.Error("a deleted pod still holds devices")
			}
		})
	}
}

func TestTheBindingIsNoEdit(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}})
	pending, onNode := sharePod("p", 500), boundPod("p", 500, "n", "0")
	h := handler(t, pl)
	h.OnAdd(pending, false)
	succeed(t, reserveOn(t, profile, pending, "n"))
	state, _ := pl.allocations.nodeStateOf("n")
	revision := state.revision.Load()
	h.OnUpdate(pending, onNode)
	if events := drainEvents(profile, ""); len(events) > 0 {
		t.Errorf("unexpected events %q", events)
	}
	if held := pl.allocations.get(pending.UID); held == nil || held.phase != bound {
		t.Errorf("want a bound pod, got %v", held)
	}
	if got := state.revision.Load(); got != revision {
		t.Error("the node's view is thrown away although the pod got what was assumed for it")
	}
	// A pod that terminates frees its devices, also where the informer shows it.
	done := onNode.DeepCopy()
	done.Status.Phase = corev1.PodFailed
	h.OnUpdate(onNode, done)
	if pl.allocations.get(pending.UID) != nil {
		t.Error("a terminated pod still holds devices")
	}
}

// Two schedulers bound at once. Everybody on the device is told, once, and
// nothing new is put there.
func TestConflict(t *testing.T) {
	a, b, c := boundPod("a", 600, "n", "0"), boundPod("b", 600, "n", "0"), boundPod("c", 300, "n", "1")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}, Pods: []*corev1.Pod{a, b, c}})
	h := handler(t, pl)
	for _, pod := range []*corev1.Pod{a, b, c} {
		pl.allocations.removePod(pod.UID)
	}
	drainEvents(profile, "")
	h.OnAdd(a, false)
	h.OnAdd(c, false)
	if events := drainEvents(profile, reasonConflict); len(events) > 0 {
		t.Errorf("unexpected events %q", events)
	}
	h.OnAdd(b, false)
	events := drainEvents(profile, reasonConflict)
	if len(events) != 2 || !strings.Contains(events[0], "default/a") || !strings.Contains(events[0], "default/b") || !strings.Contains(events[0], "Device(s) 0 of node") {
		t.Errorf("want an event on a and one on b about both, got %q", events)
	}
	h.OnUpdate(b, b)
	if events := drainEvents(profile, reasonConflict); len(events) > 0 {
		t.Errorf("it is told again: %q", events)
	}
	expectFree(t, profile, pl, -200, 700)
	small := sharePod("small", 1)
	succeed(t, reserveOn(t, profile, small, "n"))
	if got := pl.allocations.get(small.UID).annotations["gpu.berth.dev/main"]; got != "1" {
		t.Errorf("the new pod is given device %s", got)
	}
}

// Memory is counted as compute is.
func TestConflictOverMemory(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		p := makePod(name, names.GPUMilliResource, "10", names.GPUMemoryResource, "30Gi")
		p.Spec.NodeName = "n"
		annotated(p, "gpu.berth.dev/main", "0")
		return annotated(p, names.GPUAssignedAnnotation, "main=0:10m:30720Mi")
	}
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	h := handler(t, pl)
	add(t, profile, h, pod("a"))
	add(t, profile, h, pod("b"))
	if events := drainEvents(profile, reasonConflict); len(events) != 2 {
		t.Errorf("want an event on each, got %q", events)
	}
}

// etcd was restored, and the informer lists all pods anew: its store has them as they are,
// and its handlers are told of one after the other. The first pod is no longer bound as it
// was, and another one has its device.
func TestRestoredPodsAreNoConflict(t *testing.T) {
	boundAt := func(pod *corev1.Pod, second int64) *corev1.Pod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(second, 0)}}
		return pod
	}
	first := boundAt(boundPod("first", 600, "n", "0"), 1)
	for _, tt := range []struct {
		name string
		now  *corev1.Pod // nil if it is gone
		want string      // what it holds
	}{
		{"gone", nil, ""},
		{"pending", sharePod("first", 600), ""},
		{"bound to another node", boundAt(boundPod("first", 600, "other", "0"), 2), "other: main=0:600m:24576Mi"},
		{"bound to another device", boundAt(boundPod("first", 600, "n", "1"), 2), "n: main=1:600m:24576Mi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2), gpuNode("other", 2)}})
			h := handler(t, pl)
			add(t, profile, h, first)
			second := boundPod("second", 600, "n", "0")
			if tt.now == nil {
				must(t, podStore(profile).Delete(first))
			} else {
				store(t, profile, tt.now)
			}
			add(t, profile, h, second)
			if tt.now == nil {
				h.OnDelete(first)
			} else {
				h.OnUpdate(first, tt.now)
			}
			if events := drainEvents(profile, ""); len(events) > 0 {
				t.Errorf("unexpected events %q", events)
			}
			got := ""
			if held := pl.allocations.get(first.UID); held != nil {
				got = held.node + ": " + held.pod.Annotations[names.GPUAssignedAnnotation]
			}
			if got != tt.want {
				t.Errorf("it holds %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPendingPodsAreActivated: pods that may use devices which were released are woken where
// kube-scheduler does not, or may not, know on which node they are; no others are.
func TestPendingPodsAreActivated(t *testing.T) {
	pending := sharePod("p", 800)
	another := sharePod("p", 700)
	another.UID = "another"
	for _, tt := range []struct {
		name  string
		phase func(*GPUDevice)
		goes  func(cache.ResourceEventHandler)
		want  bool
	}{
		{"deleted while assumed", func(*GPUDevice) {}, func(h cache.ResourceEventHandler) { h.OnDelete(pending) }, true},
		{"replaced while assumed", func(*GPUDevice) {}, func(h cache.ResourceEventHandler) { h.OnUpdate(pending, another) }, true},
		{"deleted with a Binding on its way", func(pl *GPUDevice) {
			pl.allocations.setBindingUnknown(pending.UID, true)
			pl.allocations.forgetPod(pending.UID)
		}, func(h cache.ResourceEventHandler) { h.OnDelete(pending) }, true},
		{"bound elsewhere", func(*GPUDevice) {}, func(h cache.ResourceEventHandler) { h.OnUpdate(pending, boundPod("p", 800, "other", "0")) }, true},
		{"bound to another device", func(*GPUDevice) {}, func(h cache.ResourceEventHandler) { h.OnUpdate(pending, boundPod("p", 800, "n", "1")) }, true},
		{"bound as assumed", func(*GPUDevice) {}, func(h cache.ResourceEventHandler) { h.OnUpdate(pending, boundPod("p", 800, "n", "0")) }, false},
		{"deleted when bound", func(pl *GPUDevice) {
			pl.allocations.observe(boundPod("p", 800, "n", "0"))
		}, func(h cache.ResourceEventHandler) { h.OnDelete(boundPod("p", 800, "n", "0")) }, false},
		{"given up before", func(pl *GPUDevice) { pl.allocations.forgetPod(pending.UID) }, func(h cache.ResourceEventHandler) { h.OnDelete(pending) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2), gpuNode("other", 2)}})
			clock := fakeClock(pl)
			h := handler(t, pl)
			add(t, profile, h, pending)
			succeed(t, reserveOn(t, profile, pending, "n"))
			tt.phase(pl)
			for _, pod := range []*corev1.Pod{sharePod("waiting", 700), sharePod("impossible", 9000), makePod("plain"), boundPod("placed", 100, "n", "0")} {
				add(t, profile, h, pod)
			}
			must(t, podStore(profile).Delete(pending))
			tt.goes(h)
			if len(profile.Activated) > 0 {
				t.Error("pods were activated at once, without their back-off")
			}
			clock.Step(initialWakeUpDelay)
			var got []string
			for len(profile.Activated) > 0 {
				got = append(got, <-profile.Activated)
			}
			var want []string
			if tt.want {
				want = []string{"default/waiting"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Unexpected pods activated (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestUnassignedPodIsReported(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	pod := sharePod("p", 500)
	pod.Spec.NodeName = "n"
	pod.Spec.SchedulerName = "default-scheduler"
	h := handler(t, pl)
	h.OnAdd(pod, false)
	events := drainEvents(profile, reasonUnrecorded)
	if len(events) != 1 || !strings.Contains(events[0], `node "n"`) || !strings.Contains(events[0], "Delete it") {
		t.Errorf("want one event that names the node and the way out, got %q", events)
	}
	// Whoever adds a record afterwards gains nothing.
	forged := boundPod("p", 500, "n", "0")
	h.OnUpdate(pod, forged)
	if held := pl.allocations.get(pod.UID); held == nil || held.phase != unrecorded {
		t.Errorf("want the pod to stay unrecorded, got %v", held)
	}
	if !hasEvent(profile, reasonEdited) {
		t.Error("the forged record is not reported")
	}
}

// A name that is used again is another pod.
func TestPodCreatedAgain(t *testing.T) {
	_, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	h := handler(t, pl)
	first := boundPod("p", 500, "n", "0")
	again := boundPod("p", 300, "n", "0")
	again.UID = "another"
	h.OnAdd(first, false)
	h.OnUpdate(first, again) // the informer missed the deletion
	if pl.allocations.get(first.UID) != nil || pl.allocations.get(again.UID) == nil {
		t.Error("want the second pod in the place of the first")
	}
}

// A pod is bound, and replaced by one of the same name before the informer shows
// it bound. The scheduler's cache is not told and shows the first one as assumed
// for good; it holds nothing any more.
func TestPodReplacedUnseen(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	live.AddNode(logger, gpuNode("n", 1))
	h := handler(t, pl)
	first, again := sharePod("p", 500), sharePod("p", 500)
	again.UID = "another"
	h.OnAdd(first, false)
	check := func(what string, want int64) {
		t.Helper()
		must(t, live.UpdateSnapshot(logger, live.snapshot))
		v := pl.view(nodeInfo(t, profile, "n"), false)
		if v.unrecorded || v.usage.Free(0).Milli != want {
			t.Errorf("%s: want %d thousandths free, got %d (unrecorded pods: %t)", what, want, v.usage.Free(0).Milli, v.unrecorded)
		}
	}
	assume := func() *corev1.Pod {
		t.Helper()
		check("before", 1000)
		assumed := first.DeepCopy()
		assumed.Spec.NodeName = "n"
		must(t, live.AssumePod(logger, assumed))
		succeed(t, reserveOn(t, profile, first, "n"))
		check("assumed", 500)
		return assumed
	}
	assumed := assume()
	h.OnUpdate(first, again)
	check("replaced", 1000)

	// If the cycle fails after all, nothing is left of it.
	profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), assumed, "n")
	must(t, live.ForgetPod(logger, assumed))
	check("forgotten", 1000)
	assume()
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: first})
	check("deleted", 1000)
}

// One cache of allocations to an informer factory: profiles of one scheduler share it, and
// schedulers in one process do not.
func TestAllocationCacheIsSharedByProfiles(t *testing.T) {
	one, first := newProfile(t, gpuArgs(), schedtest.Options{})
	second, err := New(t.Context(), gpuArgs(), one)
	must(t, err)
	_, other := newProfile(t, gpuArgs(), schedtest.Options{})
	if first.allocations != second.(*GPUDevice).allocations {
		t.Error("two profiles of one scheduler have a cache each")
	}
	if first.allocations == other.allocations {
		t.Error("two schedulers share a cache")
	}
	if got := len(first.allocations.plugins); got != 2 {
		t.Errorf("want 2 plugins, got %d", got)
	}
	// The index that holds it holds nothing else.
	pods := one.SharedInformerFactory().Core().V1().Pods()
	if keys := pods.Informer().GetIndexer().ListIndexFuncValues(sharedAllocationCacheKey); len(keys) > 0 {
		t.Errorf("unexpected keys %q", keys)
	}
	if _, err := pods.Lister().List(labels.Everything()); err != nil {
		t.Error(err)
	}
}

// A node that goes takes its memory with it, unless pods still hold its devices.
func TestNodeGone(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("a", 1), gpuNode("b", 1)}})
	profile.NewCycle(t.Context(), t, sharePod("p", 100))
	handler(t, pl).OnAdd(boundPod("bound", 500, "b", "0"), false)
	nodes := nodeStore(profile)
	for _, node := range []string{"a", "b"} {
		if pl.nodes.get(node) == nil {
			t.Fatalf("node %s was not looked at", node)
		}
		must(t, nodes.Delete(gpuNode(node, 1)))
		pl.allocations.removeNode(node)
		if pl.nodes.get(node) != nil {
			t.Errorf("node %s is still remembered", node)
		}
	}
	if _, ok := pl.allocations.nodeStates["a"]; ok {
		t.Error("the marks of an empty node are kept")
	}
	if _, ok := pl.allocations.nodeStates["b"]; !ok {
		t.Error("the marks of a node with devices in use are gone")
	}
}

// Nodes come and go under new names, as an autoscaler makes them, before their pods or
// after them, and cycles that began earlier still look at them: 10,000, and with
// BERTH_LONG=1 100,000.
func TestNodesLeaveNoMemory(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	nodes := nodeStore(profile)
	podEvents, nodeEvents := handler(t, pl), pl.allocations.nodeHandler(klog.Logger{})
	s := &preFilterState{podRequest: podRequestOf(t, pl, sharePod("p", 100))}
	state := framework.NewCycleState()
	state.Write(preFilterStateKey, s)
	count := 10_000
	if os.Getenv("BERTH_LONG") == "1" {
		count = 100_000
	}
	for i := range count {
		node := gpuNode(fmt.Sprintf("node-%d", i), 1)
		pod := boundPod(fmt.Sprintf("pod-%d", i), 500, node.Name, "0")
		info := framework.NewNodeInfo(pod)
		info.SetNode(node)
		look := func() {
			succeed(t, pl.Filter(t.Context(), state, pod, info))
		}
		must(t, nodes.Add(node))
		nodeEvents.OnAdd(node, false)
		look()
		steps := []func(){
			func() { podEvents.OnAdd(pod, false) },
			func() { podEvents.OnDelete(pod) },
			func() {
				must(t, nodes.Delete(node))
				look()
				nodeEvents.OnDelete(node)
			},
			look,
		}
		// The node goes after its pods, before them, or before they are known.
		for _, step := range [][]int{{0, 1, 2, 3}, {0, 2, 3, 1, 3}, {2, 0, 3, 1, 3}}[i%3] {
			steps[step]()
		}
	}
	cells := 0
	pl.nodes.cells.Range(func(any, any) bool { cells++; return true })
	allocations := 0
	pl.allocations.byPod.Range(func(any, any) bool { allocations++; return true })
	for what, left := range map[string]int{
		"cells": cells, "node states": len(pl.allocations.nodeStates), "nodes with allocations": len(pl.allocations.byNode), "allocations": allocations, "nodes with devices": len(pl.deviceNodes.byName),
	} {
		if left != 0 {
			t.Errorf("%d %s are left", left, what)
		}
	}
}

// Two profiles read different labels of nodes, as for two vendors. Memory is counted by
// the labels of whichever finds devices.
func TestConflictOnANodeOfTheSecondProfile(t *testing.T) {
	profile, pl := newProfile(t, gpuArgs(), schedtest.Options{})
	node := makeNode("n", map[string]string{names.GPUSharingLabel: "true", "example.com/count": "1", "example.com/memory": strconv.Itoa(a100Memory)})
	second, err := New(t.Context(), gpuArgs(func(args *config.GPUDeviceArgs) {
		args.NodeLabels.Count, args.NodeLabels.Memory = "example.com/count", "example.com/memory"
	}), profile)
	must(t, err)
	if other := second.(*GPUDevice); other.allocations != pl.allocations {
		t.Fatal("the profiles have a cache each")
	}
	must(t, nodeStore(profile).Add(node))
	h := handler(t, pl)
	for _, name := range []string{"a", "b"} {
		pod := makePod(name, names.GPUMilliResource, "10", names.GPUMemoryResource, "30Gi")
		pod.Spec.NodeName = "n"
		annotated(pod, "gpu.berth.dev/main", "0")
		add(t, profile, h, annotated(pod, names.GPUAssignedAnnotation, "main=0:10m:30720Mi"))
	}
	if events := drainEvents(profile, reasonConflict); len(events) != 2 {
		t.Errorf("60 GiB of 40 are held: want an event on each, got %q", events)
	}
}

// Without the policies that keep a record from being edited, an edit is reported and
// changes nothing; but a scheduler that starts afterwards has nothing else to go by.
func TestEditedRecordAfterRestart(t *testing.T) {
	edited := boundPod("p", 500, "n", "1") // it was given device 0
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}, Pods: []*corev1.Pod{edited}})
	expectFree(t, profile, pl, 1000, 500)
}
