// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// The memory of a node must never serve a NodeInfo that preemption has taken a
// pod from, or that a nominated pod was added to.
func TestViewOfAChangedClone(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	bound := boundPod("bound", 600, "n", "0")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}, Pods: []*corev1.Pod{bound}})
	original := nodeInfo(t, profile, "n")
	pod := sharePod("p", 600)
	state := profile.NewCycle(t.Context(), t, pod)
	expect := func(what string, state fwk.CycleState, info fwk.NodeInfo, want string) {
		t.Helper()
		if got := pl.Filter(t.Context(), state, pod, info).Message(); got != want {
			t.Errorf("%s: want %q, got %q", what, want, got)
		}
	}
	expect("the node as it is", state, original, reasonTexts[device.NoShare])

	simulation, clone := state.Clone(), original.Snapshot()
	must(t, clone.RemovePod(logger, bound))
	expect("without the victim", simulation, clone, "")
	expect("the node as it is, again", state, original, reasonTexts[device.NoShare])
	podInfo, err := framework.NewPodInfo(bound)
	must(t, err)
	clone.AddPodInfo(podInfo)
	expect("with the victim spared", simulation, clone, reasonTexts[device.NoShare])
	must(t, clone.RemovePod(logger, bound))
	expect("without it again", simulation, clone, "")

	nominated, err := framework.NewPodInfo(sharePod("nominated", 500))
	must(t, err)
	clone.AddPodInfo(nominated)
	expect("beside a nominated pod", simulation, clone, reasonTexts[device.NoShare])

	// Its victim is still there: nobody may take what is left.
	small := sharePod("small", 100)
	clone = original.Snapshot()
	clone.AddPodInfo(nominated)
	if got := pl.Filter(t.Context(), profile.NewCycle(t.Context(), t, small).Clone(), small, clone).Message(); got != reasonTexts[device.NoShare] {
		t.Errorf("beside a nominated pod and its victim: want %q, got %q", reasonTexts[device.NoShare], got)
	}
	expect("the node in the end", state, original, reasonTexts[device.NoShare])
	// What was dryRun is not what metrics and hints should see.
	if got, want := pl.nodes.get("n").view.Load().generation, original.GetGeneration(); got != want {
		t.Errorf("the view of generation %d is remembered, want that of %d", got, want)
	}
}

// The cycle of a pod group puts pods into the snapshot and takes them out again
// without drawing a new generation.
func TestViewInACycleOfAPodGroup(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	live.AddNode(logger, gpuNode("n", 2))
	must(t, live.UpdateSnapshot(logger, live.snapshot))
	assume := func(pod *corev1.Pod) *corev1.Pod {
		t.Helper()
		name, state := pod.Name, profile.NewCycle(t.Context(), t, pod)
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = "n"
		info, err := framework.NewPodInfo(assumed)
		must(t, err)
		if status := profile.RunFilterPlugins(t.Context(), state, pod, nodeInfo(t, profile, "n")); !status.IsSuccess() {
			t.Fatalf("%s: %v", name, status)
		}
		generation := nodeInfo(t, profile, "n").GetGeneration()
		must(t, live.snapshot.AssumePod(info))
		if name == "b" {
			pl.nodes.remove("n") // then the view is computed with the pod on the node
		}
		show(t, profile, assumed)
		if status := profile.RunReservePluginsReserve(t.Context(), state, assumed, "n"); !status.IsSuccess() {
			t.Fatalf("%s: %v", name, status)
		}
		if got := nodeInfo(t, profile, "n").GetGeneration(); got != generation {
			t.Fatalf("the generation has changed from %d to %d: this test shows nothing", generation, got)
		}
		return assumed
	}
	place := func(name string, milli int) *corev1.Pod {
		t.Helper()
		return assume(sharePod(name, milli))
	}
	forget := func(pod *corev1.Pod) {
		t.Helper()
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
		profile.RunReservePluginsUnreserve(t.Context(), state, pod, "n")
		must(t, live.snapshot.ForgetPod(logger, pod))
	}
	expect := func(what string, want ...int64) {
		t.Helper()
		if diff := cmp.Diff(want, freeMilli(pl, nodeInfo(t, profile, "n"))); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", what, diff)
		}
	}
	expect("empty", 1000, 1000)
	a := place("a", 700)
	expect("with a", 300, 1000)
	b := place("b", 200)
	expect("with a and b", 100, 1000)
	forget(b)
	expect("with a", 300, 1000)
	forget(a)
	expect("empty again", 1000, 1000)
	place("c", 400)
	expect("with another first pod", 600, 1000)

	// A member without shares takes what the scores depend on.
	cpuFree := func() int64 { return pl.view(nodeInfo(t, profile, "n"), false).cpuFree }
	before := cpuFree()
	plain := makePod("plain", "cpu", "1")
	plain.Spec.Containers[0].Resources.Requests = plain.Spec.Containers[0].Resources.Limits
	plain = assume(plain)
	if got := cpuFree(); got != before-1000 {
		t.Errorf("with a member of 1 CPU, %d of %d milli-CPU are free", got, before)
	}
	forget(plain)
	if got := cpuFree(); got != before {
		t.Errorf("without it, %d of %d milli-CPU are free", got, before)
	}
}

// A pod that something else bound uses devices of which nobody knows: its node
// takes nothing more until it is gone.
func TestViewWithAnUnassignedPod(t *testing.T) {
	tests := []struct {
		name   string
		record string
		want   bool
	}{
		{"no record", "", true},
		{"a record that is none", "0", true},
		{"a record of another container", "other=0:500m:20480Mi", true},
		{"a record of another amount", "main=0:100m:4096Mi", true},
		{"a good record", "main=0:500m:20480Mi", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := boundPod("bound", 500, "n", "0")
			pod.Annotations[names.GPUAssignedAnnotation] = tt.record
			if tt.record == "" {
				pod.Annotations = nil
			}
			for _, informed := range []bool{false, true} {
				opts := schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}, Pods: []*corev1.Pod{pod}}
				profile, pl := newProfile(t, gpuArgs(), opts)
				if informed {
					profile.Start(t.Context(), t)
					<-pl.allocations.synced.Done()
				} else {
					store(t, profile, pod) // its handlers are told later
				}
				v := pl.view(nodeInfo(t, profile, "n"), false)
				if v.unrecorded != tt.want {
					t.Errorf("informed %t: want unrecorded %t, got %t", informed, tt.want, v.unrecorded)
				}
			}
		})
	}
}

// A node that loses its labels keeps what its pods hold, for the day on which it
// gets them back.
func TestViewOfARelabeledNode(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	node := gpuNode("n", 2)
	live.AddNode(logger, node)
	onNode := boundPod("bound", 500, "n", "1")
	store(t, profile, onNode)
	must(t, live.AddPod(logger, onNode))
	check := func(want string) {
		t.Helper()
		must(t, live.UpdateSnapshot(logger, live.snapshot))
		pod := sharePod("p", 1000)
		s := &preFilterState{podRequest: podRequestOf(t, pl, pod)}
		v := pl.view(nodeInfo(t, profile, "n"), false)
		got := ""
		if verdict := v.check(s); verdict != device.Fits {
			got = reasonText(verdict, v.node)
		}
		if got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	check("")
	bare := makeNode("n", nil)
	live.UpdateNode(logger, node, bare)
	check(reasonTexts[device.NodeNotShared])
	smaller := gpuNode("n", 1)
	live.UpdateNode(logger, bare, smaller)
	check("")
	again := annotated(gpuNode("n", 2), names.GPUCordonedAnnotation, "0")
	live.UpdateNode(logger, smaller, again)
	check(reasonTexts[device.NoShare])
}
