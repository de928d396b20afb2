// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// The device within a node is chosen by the strategy.
func TestReserveChoosesTheDevice(t *testing.T) {
	pods := []*corev1.Pod{boundPod("a", 500, "n", "0"), boundPod("b", 200, "n", "2")}
	tests := []struct {
		strategy config.GPUDeviceStrategy
		pod      *corev1.Pod
		want     map[string]string
	}{
		{
			config.GPUDeviceFragmentationGradient, sharePod("p", 500),
			map[string]string{"gpu.berth.dev/main": "0", "berth.dev/gpu-assigned": "main=0:500m:20480Mi"},
		},
		{
			config.GPUDeviceBestFit, sharePod("p", 300),
			map[string]string{"gpu.berth.dev/main": "0", "berth.dev/gpu-assigned": "main=0:300m:12288Mi"},
		},
		{
			config.GPUDeviceLeastAllocated, sharePod("p", 300),
			map[string]string{"gpu.berth.dev/main": "1", "berth.dev/gpu-assigned": "main=1:300m:12288Mi"},
		},
		{
			config.GPUDeviceBestFit, sharePod("p", 2000),
			map[string]string{"gpu.berth.dev/main": "1,3", "berth.dev/gpu-assigned": "main=1,3:1000m:40960Mi"},
		},
		{
			config.GPUDeviceBestFit, makePod("p", names.GPUMemoryResource, "20Gi"),
			map[string]string{"gpu.berth.dev/main": "0", "berth.dev/gpu-assigned": "main=0:500m:20480Mi"},
		},
	}
	for _, tt := range tests {
		t.Run(string(tt.strategy), func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(withStrategy(tt.strategy)), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 4)}, Pods: pods})
			succeed(t, reserveOn(t, profile, tt.pod, "n"))
			if diff := cmp.Diff(tt.want, pl.allocations.get(tt.pod.UID).annotations); diff != "" {
				t.Errorf("Unexpected annotations (-want,+got):\n%s", diff)
			}
		})
	}
}

// Containers of all kinds are given devices of their own; an init container uses
// what the main one will.
func TestReserveContainers(t *testing.T) {
	limits := func(milli string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{names.GPUMilliResource: resource.MustParse(milli)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	pod := makePod("p")
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "fetch", Resources: limits("800")},
		{Name: "sidecar", Resources: limits("300"), RestartPolicy: &always},
	}
	pod.Spec.Containers = []corev1.Container{{Name: "train", Resources: limits("700")}, {Name: "serve", Resources: limits("400")}}
	profile, pl := startProfile(t, gpuArgs(withStrategy(config.GPUDeviceBestFit)), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}})
	succeed(t, reserveOn(t, profile, pod, "n"))
	want := map[string]string{
		"gpu.berth.dev/fetch": "0", "gpu.berth.dev/sidecar": "0", "gpu.berth.dev/train": "0", "gpu.berth.dev/serve": "1",
		"berth.dev/gpu-assigned": "fetch=0:800m:32768Mi;sidecar=0:300m:12288Mi;train=0:700m:28672Mi;serve=1:400m:16384Mi",
	}
	if diff := cmp.Diff(want, pl.allocations.get(pod.UID).annotations); diff != "" {
		t.Errorf("Unexpected annotations (-want,+got):\n%s", diff)
	}
}

func TestReserveRefuses(t *testing.T) {
	foreign := sharePod("foreign", 100)
	foreign.Spec.NodeName = "foreign"
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{
		Nodes: []*corev1.Node{gpuNode("full", 1), gpuNode("foreign", 1), gpuNode("free", 1)},
		Pods:  []*corev1.Pod{boundPod("whole", 1000, "full", "0"), foreign},
	})
	pod := sharePod("p", 100)
	for node, want := range map[string]string{"full": reasonTexts[device.NoShare], "foreign": reasonTexts[device.Unrecorded]} {
		status := reserveOn(t, profile, pod, node)
		if status.Code() != fwk.Error || !strings.Contains(status.Message(), want) || !strings.Contains(status.Message(), `node "`+node+`"`) {
			t.Errorf("%s: want an error with %q, so that the pod is tried again, got %v", node, want, status)
		}
	}
	if pl.allocations.get(pod.UID) != nil {
		t.Error("a refused pod has devices assumed")
	}
	if status := profile.RunReservePluginsReserve(t.Context(), framework.NewCycleState(), pod, "free"); status.IsSuccess() {
		t.Error("a pod with a share was let through without PreFilter")
	}
	if status := profile.RunReservePluginsReserve(t.Context(), framework.NewCycleState(), makePod("plain"), "full"); !status.IsSuccess() {
		t.Errorf("a pod without devices: %v", status)
	}
}

// The informer has told of the pod's end, or of its node, before Reserve: nothing
// would ever take them back.
func TestReserveForPodNotPending(t *testing.T) {
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := sharePod("p", 500)
		change(pod)
		return pod
	}
	for name, informerPod := range map[string]*corev1.Pod{
		"gone":       nil,
		"replaced":   with(func(p *corev1.Pod) { p.UID = "another" }),
		"terminated": with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"bound":      with(func(p *corev1.Pod) { p.Spec.NodeName = "n" }),
	} {
		t.Run(name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
			pod := sharePod("p", 500)
			state := profile.NewCycle(t.Context(), t, pod)
			if informerPod != nil {
				must(t, podStore(profile).Add(informerPod))
			}
			status := profile.RunReservePluginsReserve(t.Context(), state, pod, "n")
			if status.Code() != fwk.Unschedulable || status.Message() != errNotPending.Error() {
				t.Errorf("want %q, got %v", errNotPending.Error(), status)
			}
			if pl.allocations.get(pod.UID) != nil || len(pl.allocations.byNode) != 0 {
				t.Error("something was assumed")
			}
		})
	}
}

// Another scheduler binds the pod in mid-cycle: what it was given stays on record.
func TestReserveForPodSeenBound(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2)}})
	pod := sharePod("p", 500)
	state := profile.NewCycle(t.Context(), t, pod)
	seen := pl.allocations.observe(boundPod("p", 500, "n", "1"))
	if seen.held == nil || seen.held.pod.UID != pod.UID {
		t.Fatalf("the bound pod was not seen: %+v", seen)
	}
	show(t, profile, pod)
	if status := profile.RunReservePluginsReserve(t.Context(), state, pod, "n"); status.Message() != errNotPending.Error() {
		t.Errorf("want %q, got %v", errNotPending.Error(), status)
	}
	profile.RunReservePluginsUnreserve(t.Context(), state, pod, "n")
	if got := pl.allocations.get(pod.UID); got != seen.held {
		t.Errorf("the record of the bound pod was replaced by %+v", got)
	}
}

// Unreserve while another cycle works on a snapshot that still shows the pod as
// assumed: it holds nothing, it is not taken for a pod of unknown devices, and it is
// nobody's victim.
func TestUnreserveDuringAnotherCycle(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{})
	live := newLiveCache(t, profile)
	live.AddNode(logger, gpuNode("n", 1))
	given := sharePod("given-up", 600)
	assumed := given.DeepCopy()
	assumed.Spec.NodeName = "n"
	begin := func() {
		t.Helper()
		must(t, live.UpdateSnapshot(logger, live.snapshot))
	}
	begin()
	must(t, live.AssumePod(logger, assumed))
	succeed(t, reserveOn(t, profile, given, "n"))

	begin() // the other cycle
	other := sharePod("other", 700)
	show(t, profile, other)
	state := profile.NewCycle(t.Context(), t, other)
	if status := pl.Filter(t.Context(), state, other, nodeInfo(t, profile, "n")); status.Message() != reasonTexts[device.NoShare] {
		t.Errorf("while the devices are assumed: want %q, got %v", reasonTexts[device.NoShare], status)
	}
	profile.RunReservePluginsUnreserve(t.Context(), framework.NewCycleState(), assumed, "n")
	for range 2 { // the second time from memory
		if status := pl.Filter(t.Context(), state, other, nodeInfo(t, profile, "n")); !status.IsSuccess() {
			t.Errorf("after Unreserve: %v", status)
		}
	}
	// A whole device fits beside it too: preemption's dry run finds no reason to take it away.
	whole := sharePod("whole", 1000)
	show(t, profile, whole)
	simulation := profile.NewCycle(t.Context(), t, whole).Clone()
	if status := pl.Filter(t.Context(), simulation, whole, nodeInfo(t, profile, "n").Snapshot()); !status.IsSuccess() {
		t.Errorf("with the pod that was given up in the dry run: %v", status)
	}
	if status := profile.RunReservePluginsReserve(t.Context(), state, other, "n"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
}

// Once a group of pods fits, its members are assumed one after the other on the
// snapshot that shows none of them. Some are seen bound meanwhile, and one is deleted.
func TestReserveOfPodsThatTheSnapshotDoesNotShow(t *testing.T) {
	for _, tt := range []struct {
		name string
		// then is done with each member after it was assumed.
		then func(t *testing.T, profile *schedtest.Profile, pl *GPUDevice, pod *corev1.Pod)
	}{
		{"assumed", func(*testing.T, *schedtest.Profile, *GPUDevice, *corev1.Pod) {}},
		{"in doubt", func(_ *testing.T, _ *schedtest.Profile, pl *GPUDevice, pod *corev1.Pod) {
			pl.allocations.setBindingUnknown(pod.UID, true)
		}},
		{"seen bound", func(t *testing.T, profile *schedtest.Profile, pl *GPUDevice, pod *corev1.Pod) {
			onNode := pod.DeepCopy()
			onNode.Spec.NodeName = "n"
			for key, value := range pl.allocations.get(pod.UID).annotations {
				annotated(onNode, key, value)
			}
			store(t, profile, onNode)
			handler(t, pl).OnUpdate(pod, onNode)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 3)}})
			var states []fwk.CycleState
			var members []*corev1.Pod
			for i := range 7 {
				members = append(members, sharePod(fmt.Sprintf("member-%d", i), 500))
				states = append(states, profile.NewCycle(t.Context(), t, members[i]))
				show(t, profile, members[i])
			}
			given := map[string]int{}
			for i, pod := range members[:6] {
				if status := profile.RunReservePluginsReserve(t.Context(), states[i], pod, "n"); !status.IsSuccess() {
					t.Fatalf("%s: %v", pod.Name, status)
				}
				given[pl.allocations.get(pod.UID).annotations["gpu.berth.dev/main"]]++
				tt.then(t, profile, pl, pod)
			}
			if diff := cmp.Diff(map[string]int{"0": 2, "1": 2, "2": 2}, given); diff != "" {
				t.Errorf("Unexpected members by device (-want,+got):\n%s", diff)
			}
			last := members[6]
			if status := profile.RunReservePluginsReserve(t.Context(), states[6], last, "n"); status.Code() != fwk.Error || !strings.Contains(status.Message(), reasonTexts[device.NoShare]) {
				t.Errorf("the seventh half of three devices: want an error, so that it is tried again, got %v", status)
			}
			// A pod that is gone holds nothing, also before the allocation cache is told.
			must(t, podStore(profile).Delete(members[0]))
			if status := profile.RunReservePluginsReserve(t.Context(), states[6], last, "n"); !status.IsSuccess() {
				t.Errorf("after a member was deleted: %v", status)
			}
		})
	}
}

// Preemption for a pod group takes victims out of the NodeInfos of the snapshot and tries
// the members on what is left, on that snapshot or after it is restored.
func TestReserveInPlaceOfVictims(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	victim := boundPod("victim", 1000, "n", "0")
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}, Pods: []*corev1.Pod{victim}})
	member := sharePod("member", 600)
	show(t, profile, member)
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), state, member); !status.IsSuccess() {
		t.Fatal(status)
	}
	info := nodeInfo(t, profile, "n")
	must(t, info.RemovePod(logger, victim))
	if status := pl.Filter(t.Context(), state, member, info); !status.IsSuccess() {
		t.Errorf("Filter without the victim: %v", status)
	}
	if status := profile.RunReservePluginsReserve(t.Context(), state, member, "n"); !status.IsSuccess() {
		t.Errorf("Reserve without the victim: %v", status)
	}
	profile.RunReservePluginsUnreserve(t.Context(), state, member, "n")
	// Out of that cycle, who is not shown was bound since the snapshot was taken.
	state.SetPodGroupSchedulingCycle(nil)
	if status := profile.RunReservePluginsReserve(t.Context(), state, member, "n"); status.Code() != fwk.Error {
		t.Errorf("Reserve beside a pod that the snapshot does not show: want an error, got %v", status)
	}
}

// A member of a group that fits gets the devices with which it was found to fit, also if
// others would be better by then; others if those are taken.
func TestReserveTheChosenDevicesAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		// meanwhile are pods that are on the node by the second time, beside a pod with
		// 500 of device 0.
		meanwhile []*corev1.Pod
		want      string
	}{
		{"nothing else", nil, "0"},
		{"a better one", []*corev1.Pod{boundPod("more", 600, "n", "1")}, "0"},
		{"taken", []*corev1.Pod{boundPod("taken", 500, "n", "0")}, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logger, _ := ktesting.NewTestContext(t)
			profile, pl := startProfile(t, gpuArgs(withStrategy(config.GPUDeviceBestFit)), schedtest.Options{})
			live := newLiveCache(t, profile)
			live.AddNode(logger, gpuNode("n", 2))
			bind := func(pods ...*corev1.Pod) {
				t.Helper()
				for _, pod := range pods {
					store(t, profile, pod)
					must(t, live.AddPod(logger, pod))
				}
				must(t, live.UpdateSnapshot(logger, live.snapshot))
			}
			bind(boundPod("first", 500, "n", "0"))
			member := sharePod("member", 400)
			show(t, profile, member)
			state := preFilterOrSkip(t, profile, member)
			state.SetPodGroupSchedulingCycle(framework.NewCycleState())
			succeed(t, profile.RunReservePluginsReserve(t.Context(), state, member, "n"))
			profile.RunReservePluginsUnreserve(t.Context(), state, member, "n")
			bind(tt.meanwhile...)
			state.SetPodGroupSchedulingCycle(nil)
			succeed(t, profile.RunReservePluginsReserve(t.Context(), state, member, "n"))
			if got := pl.allocations.get(member.UID).annotations[names.GPUDevicesAnnotationPrefix+"main"]; got != tt.want {
				t.Errorf("device %s, want %s", got, tt.want)
			}
		})
	}
}

func TestUnreserve(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	pod, state := sharePod("p", 600), framework.NewCycleState()
	unreserve := func() { profile.RunReservePluginsUnreserve(t.Context(), state, pod, "n") }
	unreserve()
	succeed(t, reserveOn(t, profile, pod, "n"))
	if pl.allocations.get(pod.UID) == nil {
		t.Fatal("nothing is assumed")
	}
	for range 2 {
		unreserve()
		if pl.allocations.get(pod.UID) != nil {
			t.Error("what was assumed was not taken back")
		}
	}
	if len(pl.allocations.byNode) != 0 {
		t.Errorf("something is left: %v", pl.allocations.byNode)
	}
	// What is seen bound is not assumed.
	pl.allocations.observe(boundPod("p", 600, "n", "0"))
	unreserve()
	if h := pl.allocations.get(pod.UID); h == nil || h.phase != bound {
		t.Errorf("want a bound pod, got %v", h)
	}
}
