// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// runningOn is the pod on a node, without a record.
func runningOn(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// claimPod is a pod with a ResourceClaim of which nothing is known.
func claimPod(name string) *corev1.Pod {
	pod := makePod(name)
	claim := "claim-of-" + name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	return pod
}

func terminated(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

// refusals returns why the node n is refused to each of the pods, by its name.
func refusals(t *testing.T, profile *schedtest.Profile, pods ...*corev1.Pod) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, pod := range pods {
		verdicts, status := profile.Filter(t.Context(), t, pod)
		got[pod.Name] = verdicts["n"]
		if !status.IsSuccess() {
			got[pod.Name] = status.Message()
		}
	}
	return got
}

// A shared node with a pod that a device plugin or a DRA driver gave devices to takes no
// share; what has terminated, is without a node or asks for nothing does not matter.
func TestOtherUseOfASharedNode(t *testing.T) {
	const other = "node(s) shared their devices while a pod uses devices there that a device plugin or a ResourceClaim gave it"
	initOnly := makePod("init", "nvidia.com/gpu", "1")
	initOnly.Spec.InitContainers, initOnly.Spec.Containers = initOnly.Spec.Containers, []corev1.Container{{Name: "main"}}
	shareAndClaim := boundPod("both", 100, "n", "0")
	shareAndClaim.Spec.ResourceClaims = claimPod("x").Spec.ResourceClaims
	tests := []struct {
		name string
		pods []*corev1.Pod
		want string
	}{
		{"whole devices", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/gpu", "8"), "n")}, other},
		{"in an init container", []*corev1.Pod{runningOn(initOnly, "n")}, other},
		{"a MIG device", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/mig-1g.5gb", "1"), "n")}, other},
		{"a slice of time", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/gpu.shared", "1"), "n")}, other},
		{"a claim that is not known", []*corev1.Pod{runningOn(claimPod("a"), "n")}, other},
		{"a share and such a claim", []*corev1.Pod{shareAndClaim}, other},
		{"none of a device plugin's devices", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/gpu", "0", "nvidia.com/mig-1g.5gb", "0"), "n")}, ""},
		{"another resource", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/nic", "1"), "n")}, ""},
		{"terminated", []*corev1.Pod{terminated(runningOn(makePod("a", "nvidia.com/gpu", "8"), "n"))}, ""},
		{"zero shares, bound by something else", []*corev1.Pod{runningOn(makePod("a", names.GPUMilliResource, "0", names.GPUMemoryResource, "0"), "n")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, _ := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 8)}, Pods: tt.pods})
			share := sharePod("share", 100)
			if got := refusals(t, profile, share)["share"]; got != tt.want {
				t.Errorf("Filter: want %q, got %q", tt.want, got)
			}
			if got := reserveOn(t, profile, share, "n").Message(); !strings.HasSuffix(got, tt.want) || got != "" && tt.want == "" {
				t.Errorf("Reserve: want %q, got %q", tt.want, got)
			}
		})
	}
}

// A node on which shares are held, and that is not shared any more, takes no pods that
// others give devices to.
func TestSharesHeldOnAnUnsharedNode(t *testing.T) {
	const held = "node(s) ran a pod that holds a share of their devices, and take no pods of a device plugin or a ResourceClaim for devices until it is gone"
	pods := []*corev1.Pod{makePod("whole", "nvidia.com/gpu", "1"), makePod("mig", "nvidia.com/mig-1g.5gb", "1"), claimPod("claim"), makePod("plain")}
	all := map[string]string{"whole": held, "mig": held, "claim": held, "plain": ""}
	none := map[string]string{"whole": "", "mig": "", "claim": "", "plain": ""}
	tests := []struct {
		name string
		pods []*corev1.Pod
		want map[string]string
	}{
		{"with a record", []*corev1.Pod{boundPod("a", 500, "n", "0")}, all},
		{"without a record", []*corev1.Pod{runningOn(sharePod("a", 500), "n")}, all},
		{"terminated", []*corev1.Pod{terminated(boundPod("a", 500, "n", "0"))}, none},
		{"zero", []*corev1.Pod{runningOn(makePod("a", names.GPUMilliResource, "0"), "n")}, none},
		{"a pod of the device plugin", []*corev1.Pod{runningOn(makePod("a", "nvidia.com/gpu", "1"), "n")}, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, _ := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{pluginNode("n", a100, 8)}, Pods: tt.pods})
			if diff := cmp.Diff(tt.want, refusals(t, profile, pods...)); diff != "" {
				t.Errorf("Unexpected reasons (-want,+got):\n%s", diff)
			}
		})
	}
}

// A device is the one with the UUID that the container reads, whatever its index was.
func TestUUIDsAreWhatCounts(t *testing.T) {
	holdsB := boundPod("a", 1000, "n", "1")
	holdsB.Annotations["gpu.berth.dev/main"] = "GPU-b"
	node := func(devices int, uuids string) *corev1.Node {
		return annotated(gpuNode("n", devices), names.GPUUUIDsAnnotation, uuids)
	}
	tests := []struct {
		name string
		node *corev1.Node
		want string // the device that a whole-device pod is given, or why none
	}{
		{"as it was", node(2, "GPU-a,GPU-b"), "GPU-a"},
		{"reordered", node(2, "GPU-b,GPU-a"), "GPU-a"},
		{"shrunk", node(1, "GPU-b"), reasonTexts[device.NoShare]},
		{"the device is gone", node(2, "GPU-a,GPU-c"), "GPU-a"},
		{"the device is gone, and its index with it", node(1, "GPU-a"), "GPU-a"},
		{"no list any more", gpuNode("n", 2), reasonTexts[device.Unrecorded]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{tt.node}, Pods: []*corev1.Pod{holdsB}})
			whole := sharePod("whole", 1000)
			got := reserveOn(t, profile, whole, "n").Message()
			if held := pl.allocations.get(whole.UID); held != nil {
				got = held.annotations["gpu.berth.dev/main"]
			}
			if !strings.HasSuffix(got, tt.want) {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

// Two pods that were given the same device by UUID are conflicting, whatever index each
// record has; and two with the same index of different devices are not.
func TestConflictByUUID(t *testing.T) {
	given := func(name, index, uuid string) *corev1.Pod {
		pod := boundPod(name, 600, "n", index)
		pod.Annotations["gpu.berth.dev/main"] = uuid
		return pod
	}
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want int
	}{
		{"one device", []*corev1.Pod{given("a", "1", "GPU-b"), given("b", "0", "GPU-b")}, 2},
		{"one index", []*corev1.Pod{given("a", "0", "GPU-a"), given("b", "0", "GPU-b")}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{annotated(gpuNode("n", 2), names.GPUUUIDsAnnotation, "GPU-b,GPU-a")}})
			h := handler(t, pl)
			for _, pod := range tt.pods {
				add(t, profile, h, pod)
			}
			if events := drainEvents(profile, reasonConflict); len(events) != tt.want {
				t.Errorf("want %d events, got %q", tt.want, events)
			}
		})
	}
}

// A driver that tells a little less memory than before makes no conflict of pods that
// share a device well, and takes nothing from them.
func TestLessMemoryIsNoConflict(t *testing.T) {
	less := func() *corev1.Node { return labeled(gpuNode("n", 1), "nvidia.com/gpu.memory", "40936") }
	start := func(t *testing.T, pods ...*corev1.Pod) *schedtest.Profile {
		t.Helper()
		profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{less()}, Pods: pods})
		h := handler(t, pl)
		for _, pod := range pods {
			pl.allocations.removePod(pod.UID)
			h.OnAdd(pod, false)
		}
		return profile
	}
	t.Run("one whole device", func(t *testing.T) {
		profile := start(t, boundPod("a", 1000, "n", "0"))
		if events := drainEvents(profile, reasonConflict); len(events) > 0 {
			t.Errorf("one pod is a conflict: %q", events)
		}
	})
	t.Run("all of the memory, as asked", func(t *testing.T) {
		pod := makePod("a", names.GPUMilliResource, "1000", names.GPUMemoryResource, "40960Mi")
		profile := start(t, bindTo(pod, "n", "0", 1000))
		if events := drainEvents(profile, reasonConflict); len(events) > 0 {
			t.Errorf("one pod is a conflict: %q", events)
		}
	})
	t.Run("three quarters", func(t *testing.T) {
		profile := start(t, boundPod("a", 250, "n", "0"), boundPod("b", 250, "n", "0"), boundPod("c", 250, "n", "0"))
		if status := reserveOn(t, profile, sharePod("d", 250), "n"); !status.IsSuccess() {
			t.Errorf("a fourth does not fit: %v", status)
		}
		if events := drainEvents(profile, reasonConflict); len(events) > 0 {
			t.Errorf("unexpected events %q", events)
		}
	})
	t.Run("two halves by memory", func(t *testing.T) {
		half := func(name string) *corev1.Pod {
			return bindTo(makePod(name, names.GPUMemoryResource, "20480Mi"), "n", "0", 500)
		}
		profile := start(t, half("a"), half("b"))
		for _, event := range drainEvents(profile, reasonConflict) {
			if strings.Contains(event, "Delete") || !strings.Contains(event, "label for the memory") {
				t.Errorf("it advises to delete a pod for less memory: %q", event)
			}
		}
	})
}

// A claim or a MIG device is a device: such pods are kept from no node with devices, and
// plain ones are kept from nodes that have nothing else.
func TestNonGPUPodsBesideMIGAndClaims(t *testing.T) {
	migNode := pluginNode("n", a100, 0)
	migNode.Status.Allocatable["nvidia.com/mig-1g.5gb"] = resource.MustParse("7")
	mixedNode := pluginNode("n", a100, 4)
	mixedNode.Status.Allocatable["nvidia.com/mig-1g.5gb"] = resource.MustParse("7")
	mig, claim, plain := makePod("mig", "nvidia.com/mig-1g.5gb", "1"), claimPod("claim"), makePod("plain")
	for name, node := range map[string]*corev1.Node{"MIG devices alone": migNode, "whole devices too": mixedNode} {
		t.Run("Forbid, "+name, func(t *testing.T) {
			profile, _ := startProfile(t, gpuArgs(withNonGPUPods(config.NonGPUPodsForbid)), schedtest.Options{Nodes: []*corev1.Node{node}})
			want := map[string]string{"mig": "", "claim": "", "plain": reasonTexts[device.Forbidden]}
			if diff := cmp.Diff(want, refusals(t, profile, mig, claim, plain)); diff != "" {
				t.Errorf("Unexpected reasons (-want,+got):\n%s", diff)
			}
		})
	}
	t.Run("Avoid", func(t *testing.T) {
		profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{migNode, makeNode("bare", nil)}})
		for _, pod := range []*corev1.Pod{mig, claim, plain} {
			state := preFilterOrSkip(t, profile, pod)
			status := pl.PreScore(t.Context(), state, pod, profile.Nodes(t))
			if wantSkip := pod != plain; status.IsSkip() != wantSkip {
				t.Errorf("%s: want PreScore to skip it %t, got %v", pod.Name, wantSkip, status)
			}
		}
	})
}

// What is cordoned is in neither of the two amounts, and has two of its own.
func TestCordonedDevicesInMetrics(t *testing.T) {
	startProfile(t, gpuArgs(), schedtest.Options{
		Name:  t.Name(),
		Nodes: []*corev1.Node{annotated(gpuNode("n", 3), names.GPUCordonedAnnotation, "0,1")},
		Pods:  []*corev1.Pod{boundPod("a", 500, "n", "0"), boundPod("b", 1000, "n", "1"), boundPod("c", 300, "n", "2")},
	})
	got := served(t, t.Name())
	for key, want := range map[string]float64{
		"capacity_milli nvidia-a100": 1000, "allocated_milli nvidia-a100": 300,
		"cordoned_capacity_milli nvidia-a100": 2000, "cordoned_allocated_milli nvidia-a100": 1500,
	} {
		if got[key] != want {
			t.Errorf("%s: want %g, got %g", key, want, got[key])
		}
	}
}
