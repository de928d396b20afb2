// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// handler returns the handler of the ledger's pod events, to call it directly.
func handler(tb testing.TB, pl *GPUDevice) cache.ResourceEventHandler {
	tb.Helper()
	logger, _ := ktestingContext(tb)
	return pl.ledger.podHandler(logger)
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
			pl.ledger.drop(first.UID)
			h := handler(t, pl)
			h.OnAdd(first, false)
			drainEvents(profile, "")
			h.OnUpdate(first, tt.edited)
			if got := hasEvent(profile, reasonEdited); got != tt.want {
				t.Errorf("event: want %t, got %t", tt.want, got)
			}
			// The NodeInfo has the edited pod.
			if diff := cmp.Diff([]int64{500, 1000}, freeMilli(pl, nodeInfo(t, profile, "n"))); diff != "" {
				t.Errorf("Unexpected free amounts (-want,+got):\n%s", diff)
			}
			h.OnDelete(cache.DeletedFinalStateUnknown{Obj: tt.edited})
			if pl.ledger.get(first.UID) != nil {
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
	if status := reserveOn(t, profile, pending, "n"); !status.IsSuccess() {
		t.Fatal(status)
	}
	revision := pl.ledger.marksOf("n").revision.Load()
	h.OnUpdate(pending, onNode)
	if events := drainEvents(profile, ""); len(events) > 0 {
		t.Errorf("unexpected events %q", events)
	}
	if held := pl.ledger.get(pending.UID); held == nil || held.phase != bound {
		t.Errorf("want a bound pod, got %v", held)
	}
	if got := pl.ledger.marksOf("n").revision.Load(); got != revision {
		t.Error("the node's view is thrown away although the pod got what it was promised")
	}
	// A pod that terminates frees its devices, also where the informer shows it.
	done := onNode.DeepCopy()
	done.Status.Phase = corev1.PodFailed
	h.OnUpdate(onNode, done)
	if pl.ledger.get(pending.UID) != nil {
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
		pl.ledger.drop(pod.UID)
	}
	drainEvents(profile, "")
	h.OnAdd(a, false)
	h.OnAdd(c, false)
	if events := drainEvents(profile, reasonConflict); len(events) > 0 {
		t.Errorf("unexpected events %q", events)
	}
	h.OnAdd(b, false)
	events := drainEvents(profile, reasonConflict)
	if len(events) != 2 || !strings.Contains(events[0], "default/a") || !strings.Contains(events[0], "default/b") || !strings.Contains(events[0], "device(s) 0 of node") {
		t.Errorf("want an event on a and one on b about both, got %q", events)
	}
	h.OnUpdate(b, b)
	if events := drainEvents(profile, reasonConflict); len(events) > 0 {
		t.Errorf("it is told again: %q", events)
	}
	if diff := cmp.Diff([]int64{-200, 700}, freeMilli(pl, nodeInfo(t, profile, "n"))); diff != "" {
		t.Errorf("Unexpected free amounts (-want,+got):\n%s", diff)
	}
	small := sharePod("small", 1)
	if status := reserveOn(t, profile, small, "n"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := pl.ledger.get(small.UID).annotations["gpu.berth.dev/main"]; got != "1" {
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
	h.OnAdd(pod("a"), false)
	h.OnAdd(pod("b"), false)
	if events := drainEvents(profile, reasonConflict); len(events) != 2 {
		t.Errorf("want an event on each, got %q", events)
	}
}

func TestUnassignedPodIsReported(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	pod := sharePod("p", 500)
	pod.Spec.NodeName = "n"
	pod.Spec.SchedulerName = "default-scheduler"
	h := handler(t, pl)
	h.OnAdd(pod, false)
	events := drainEvents(profile, reasonUnassigned)
	if len(events) != 1 || !strings.Contains(events[0], `node "n"`) || !strings.Contains(events[0], "Delete it") {
		t.Errorf("want one event that names the node and the way out, got %q", events)
	}
	// Whoever adds a record afterwards gains nothing.
	forged := boundPod("p", 500, "n", "0")
	h.OnUpdate(pod, forged)
	if held := pl.ledger.get(pod.UID); held == nil || held.phase != unassigned {
		t.Errorf("want the pod to stay unassigned, got %v", held)
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
	if pl.ledger.get(first.UID) != nil || pl.ledger.get(again.UID) == nil {
		t.Error("want the second pod in the place of the first")
	}
}

// A pod is bound, and replaced by one of the same name before the informer shows
// it bound. The scheduler's cache is not told and shows the first one as assumed
// for good; it holds nothing any more.
func TestPodReplacedUnseen(t *testing.T) {
	logger, _ := ktestingContext(t)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	live.AddNode(logger, gpuNode("n", 1))
	h := handler(t, pl)
	first, again := sharePod("p", 500), sharePod("p", 500)
	again.UID = "another"
	h.OnAdd(first, false)
	check := func(what string, want int64) {
		t.Helper()
		if err := live.UpdateSnapshot(logger, live.snapshot); err != nil {
			t.Fatal(err)
		}
		v := pl.view(nodeInfo(t, profile, "n"), false)
		if v.unassigned || v.state.Free(0).Milli != want {
			t.Errorf("%s: want %d thousandths free, got %d (unassigned pods: %t)", what, want, v.state.Free(0).Milli, v.unassigned)
		}
	}
	assume := func() *corev1.Pod {
		t.Helper()
		check("before", 1000)
		assumed := first.DeepCopy()
		assumed.Spec.NodeName = "n"
		if err := live.AssumePod(logger, assumed); err != nil {
			t.Fatal(err)
		}
		if status := reserveOn(t, profile, first, "n"); !status.IsSuccess() {
			t.Fatal(status)
		}
		check("promised", 500)
		return assumed
	}
	assumed := assume()
	h.OnUpdate(first, again)
	check("replaced", 1000)

	// If the cycle fails after all, nothing is left of it.
	profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), assumed, "n")
	if err := live.ForgetPod(logger, assumed); err != nil {
		t.Fatal(err)
	}
	check("forgotten", 1000)
	assume()
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: first})
	check("deleted", 1000)
	pl.ledger.nodeGone("n")
	ghosts := 0
	pl.ledger.ghosts.Range(func(any, any) bool { ghosts++; return true })
	if ghosts > 0 {
		t.Errorf("%d ghosts are left", ghosts)
	}
}

// One ledger to an informer factory: profiles of one scheduler share it, and
// schedulers in one process do not.
func TestLedgerIsSharedByProfiles(t *testing.T) {
	metrics.Register()
	client := fake.NewClientset()
	build := func(name string, factory informers.SharedInformerFactory) *ledger {
		t.Helper()
		var built *GPUDevice
		registry := frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New, Name: capture(&built)}
		profile := &schedulerconfig.KubeSchedulerProfile{
			SchedulerName: name,
			Plugins: &schedulerconfig.Plugins{
				QueueSort:  schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: queuesort.Name}}},
				Bind:       schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: defaultbinder.Name}}},
				MultiPoint: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: Name, Weight: 1}}},
			},
			PluginConfig: []schedulerconfig.PluginConfig{{Name: Name, Args: gpuArgs()}},
		}
		if _, err := frameworkruntime.NewFramework(t.Context(), registry, profile,
			frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory)); err != nil {
			t.Fatal(err)
		}
		return built.ledger
	}
	one, other := informers.NewSharedInformerFactory(client, 0), informers.NewSharedInformerFactory(client, 0)
	a, b, c := build("a", one), build("b", one), build("c", other)
	if a != b {
		t.Error("two profiles of one scheduler have a ledger each")
	}
	if a == c {
		t.Error("two schedulers share a ledger")
	}
	if got := len(a.members); got != 2 {
		t.Errorf("want 2 members, got %d", got)
	}
	// The index that holds it holds nothing else.
	if keys := one.Core().V1().Pods().Informer().GetIndexer().ListIndexFuncValues(ledgerIndex); len(keys) > 0 {
		t.Errorf("unexpected keys %q", keys)
	}
	if _, err := one.Core().V1().Pods().Lister().List(labels.Everything()); err != nil {
		t.Error(err)
	}
}

// A node that goes takes its memory with it, unless pods still hold its devices.
func TestNodeGone(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("a", 1), gpuNode("b", 1)}})
	preFilter(t, profile, sharePod("p", 100))
	handler(t, pl).OnAdd(boundPod("bound", 500, "b", "0"), false)
	for _, node := range []string{"a", "b"} {
		if pl.nodes.get(node) == nil {
			t.Fatalf("node %s was not looked at", node)
		}
		pl.ledger.nodeGone(node)
		if pl.nodes.get(node) != nil {
			t.Errorf("node %s is still remembered", node)
		}
	}
	if _, ok := pl.ledger.marks["a"]; ok {
		t.Error("the marks of an empty node are kept")
	}
	if _, ok := pl.ledger.marks["b"]; !ok {
		t.Error("the marks of a node with devices in use are gone")
	}
}
