// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// part asks for cores percent of one of HAMi's GPUs, and as much of its memory.
func part(cores int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: draslices.HAMiDriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"cores":  *resource.NewQuantity(cores, resource.DecimalSI),
			"memory": *resource.NewQuantity(draslices.T4().MemoryMiB/100*cores<<20, resource.BinarySI),
		}},
	}}
}

// TestTakesTheExactGap gives a claim that fits two devices the one that it fills. First fit spoils
// the other one.
func TestTakesTheExactGap(t *testing.T) {
	w := newWorld(t, device.FragmentationGradient{}, []*corev1.Node{newNode("n0")}, draslices.HAMi.Slices("n0", 2, draslices.T4()),
		draslices.HAMi.Classes()[0], newClaim("half", part(50)), newClaim("more", part(70)), newClaim("rest", part(30)))
	ctx := quiet(t)
	for _, name := range []string{"half", "more"} {
		_, allocated := w.ask(ctx, w.ours, newPod(name, name))
		w.commit(t, allocated["n0"])
	}
	first, _ := w.ask(ctx, w.stock, newPod("rest", "rest"))
	chosen, _ := w.ask(ctx, w.ours, newPod("rest", "rest"))
	for name, tt := range map[string]struct {
		of   map[string]answer
		want string
	}{
		"first fit":             {first, "hami-gpu-0"},
		"FragmentationGradient": {chosen, "hami-gpu-1"},
	} {
		if got := tt.of["n0"].Devices; len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s takes %v, want %s", name, got, tt.want)
		}
	}
}

// TestRankingIsScore compares what NodeCandidates gets of all nodes with what Score says of those on which the
// claims fit, in random clusters.
func TestRankingIsScore(t *testing.T) {
	ranked := 0
	inWorlds(t, device.FragmentationGradient{}, func(t *testing.T, r *rand.Rand, w *world, pod *corev1.Pod) {
		if r.IntN(4) == 0 {
			pod = newPod("plain")
		}
		cs := framework.NewCycleState()
		state := fwk.CycleState(cs)
		_, status := w.ours.PreFilter(quiet(t), cs, pod, w.nodes)
		if status.IsSkip() {
			state = candidates.NewDryRun(cs)
			_, status = w.ours.PreFilter(quiet(t), state, pod, w.nodes)
		}
		written := candidates.Read(state)
		if len(written) == 0 || written[0].Rank == nil {
			return
		}
		scores := written[0].Rank().Scores
		for i, node := range w.nodes {
			if !status.IsSkip() && !w.ours.Filter(quiet(t), state, pod, node).IsSuccess() {
				continue
			}
			score, _ := w.ours.Score(quiet(t), state, pod, node)
			if int64(scores[i]) != score {
				t.Errorf("pod %s, node %s: ranked %d, scored %d", pod.Name, node.Node().Name, scores[i], score)
			}
			ranked++
		}
	})
	if ranked < 500 {
		t.Errorf("%d nodes were ranked: the worlds show too little", ranked)
	}
}

// TestPodsWithoutClaims rates nodes for a pod that asks for no device: best without devices, and
// last where the devices have no model.
func TestPodsWithoutClaims(t *testing.T) {
	nodes := []*corev1.Node{newNode("bare"), newNode("shared"), newNode("mig")}
	list := append(draslices.HAMi.Slices("shared", 2, draslices.T4()), draslices.DynamicMIG.Slices("mig", 1, draslices.A100())...)
	w := newWorld(t, device.FragmentationGradient{}, nodes, list, draslices.HAMi.Classes()[0])
	cs := framework.NewCycleState()
	pod := newPod("plain")
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	if _, status := w.ours.PreFilter(quiet(t), cs, pod, w.nodes); !status.IsSkip() {
		t.Fatalf("PreFilter: %v, want Skip", status)
	}
	scores := map[string]int64{}
	for _, node := range w.nodes {
		scores[node.Node().Name], _ = w.ours.Score(quiet(t), cs, pod, node)
	}
	if scores["bare"] <= scores["shared"] || scores["shared"] <= scores["mig"] {
		t.Errorf("scores %v, want those of bare, shared and mig from the best to the worst", scores)
	}
}

// TestPartitions places MIG devices where the GPU keeps what others may ask for: a small one not where a 4g.40gb has to
// begin, and the next on the same GPU.
func TestPartitions(t *testing.T) {
	mig := func(profile string) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: draslices.MIGClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "device.attributes['gpu.nvidia.com'].profile == '" + profile + "'"}}},
		}}
	}
	tests := []struct{ claim, profile, want string }{
		{"first", "1g.10gb", "gpu-0-mig-1g10gb-19-6"},
		{"large", "4g.40gb", "gpu-0-mig-4g40gb-5-0"},
		{"second", "1g.10gb", "gpu-0-mig-1g10gb-19-4"},
		{"half", "3g.40gb", "gpu-1-mig-3g40gb-9-4"},
		{"half again", "3g.40gb", "gpu-1-mig-3g40gb-9-0"},
	}
	objects := []runtime.Object{draslices.DynamicMIG.Classes()[1]}
	for _, tt := range tests {
		objects = append(objects, newClaim(tt.claim, mig(tt.profile)))
	}
	w := newWorld(t, device.FragmentationGradient{}, []*corev1.Node{newNode("n0")}, draslices.DynamicMIG.Slices("n0", 2, draslices.A100()), objects...)
	for _, tt := range tests {
		got, allocated := w.ask(quiet(t), w.ours, newPod(tt.claim, tt.claim))
		if devices := got["n0"].Devices; len(devices) != 1 || !strings.HasSuffix(devices[0], "/"+tt.want) {
			t.Errorf("%s: %v, want %s", tt.claim, devices, tt.want)
		}
		w.commit(t, allocated["n0"])
	}
	w.requireWithin(t)
}

// TestOddCounters has slices that no driver should publish. They are allocated from as DynamicResources does.
func TestOddCounters(t *testing.T) {
	tests := map[string]func(sets []resourcev1.CounterSet, d *resourcev1.Device){
		"a set without counters": func(sets []resourcev1.CounterSet, _ *resourcev1.Device) {
			sets[0].Counters = map[string]resourcev1.Counter{}
		},
		"a counter that is not there": func(_ []resourcev1.CounterSet, d *resourcev1.Device) {
			d.ConsumesCounters[0].Counters["other"] = resourcev1.Counter{}
		},
		"a set that is not there": func(_ []resourcev1.CounterSet, d *resourcev1.Device) { d.ConsumesCounters[0].CounterSet = "other" },
		"more than there is": func(_ []resourcev1.CounterSet, d *resourcev1.Device) {
			d.ConsumesCounters[0].Counters["memory"] = resourcev1.Counter{Value: resource.MustParse("1Ei")}
		},
		"less than nothing": func(_ []resourcev1.CounterSet, d *resourcev1.Device) {
			d.ConsumesCounters[0].Counters["memory"] = resourcev1.Counter{Value: resource.MustParse("-1")}
		},
		"a device of two sets": func(_ []resourcev1.CounterSet, d *resourcev1.Device) {
			d.ConsumesCounters = append(d.ConsumesCounters, d.ConsumesCounters[0])
		},
		"a device without counters":      func(_ []resourcev1.CounterSet, d *resourcev1.Device) { d.ConsumesCounters = nil },
		"a device that claims may share": func(_ []resourcev1.CounterSet, d *resourcev1.Device) { d.AllowMultipleAllocations = ptr.To(true) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			list := draslices.DynamicMIG.Slices("n0", 1, draslices.A100())
			change(list[0].Spec.SharedCounters, &list[1].Spec.Devices[3])
			if p := newPartitions(list, &layouts{}); p != nil {
				t.Errorf("there is a model of them: %+v", p)
			}
			w := newWorld(t, device.FragmentationGradient{}, []*corev1.Node{newNode("n0")}, list, draslices.DynamicMIG.Classes()[0],
				newClaim("c", resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: draslices.NVIDIADriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				}}))
			want, _ := w.ask(quiet(t), w.stock, newPod("p", "c"))
			got, _ := w.ask(quiet(t), w.ours, newPod("p", "c"))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("not what DynamicResources says (-want,+got):\n%s", diff)
			}
		})
	}
}
