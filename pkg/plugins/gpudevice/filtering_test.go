// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestFilter(t *testing.T) {
	nodes := []*corev1.Node{
		makeNode("plain", nil),
		gpuNode("shared", 2),
		pluginNode("plugin", a100, 2),
		labeled(gpuNode("h100", 1), "nvidia.com/gpu.product", "NVIDIA-H100"),
		labeled(gpuNode("small", 2), "nvidia.com/gpu.memory", "16384"),
		annotated(gpuNode("cordoned", 2), names.GPUCordonedAnnotation, "0"),
		gpuNode("full", 1),
		gpuNode("half-full", 1),
		gpuNode("memory-full", 1),
		gpuNode("foreign", 1),
	}
	memoryHog := bindTo(sharePod("memory-hog", 1), "memory-full", "0", 1)
	memoryHog.Spec.Containers[0].Resources.Limits = makePod("", names.GPUMilliResource, "1", names.GPUMemoryResource, "30Gi").Spec.Containers[0].Resources.Limits
	memoryHog.Annotations[names.GPUAssignedAnnotation] = "main=0:1m:30720Mi"
	foreign := sharePod("foreign", 100)
	foreign.Spec.NodeName = "foreign"
	done := boundPod("done", 1000, "half-full", "0")
	done.Status.Phase = corev1.PodSucceeded
	pods := []*corev1.Pod{
		boundPod("whole", 1000, "full", "0"),
		boundPod("half", 500, "half-full", "0"),
		done, memoryHog, foreign,
	}
	tests := []struct {
		name string
		args *config.GPUDeviceArgs
		pod  *corev1.Pod
		// want has the nodes that are refused and why.
		want map[string]string
	}{
		{
			name: "a share",
			pod:  sharePod("p", 600),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "full": reasonTexts[device.NoShare], "half-full": reasonTexts[device.NoShare],
				"memory-full": reasonTexts[device.NoMemory], "foreign": reasonTexts[device.Unrecorded],
			},
		},
		{
			name: "a share that fits beside another, and beside a pod that has terminated",
			pod:  sharePod("p", 500),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "full": reasonTexts[device.NoShare],
				"memory-full": reasonTexts[device.NoMemory], "foreign": reasonTexts[device.Unrecorded],
			},
		},
		{
			name: "two whole devices",
			pod:  sharePod("p", 2000),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "h100": reasonTexts[device.TooFewDevices], "cordoned": reasonTexts[device.TooFewDevices],
				"full": reasonTexts[device.TooFewDevices], "half-full": reasonTexts[device.TooFewDevices], "memory-full": reasonTexts[device.TooFewDevices], "foreign": reasonTexts[device.TooFewDevices],
			},
		},
		{
			name: "memory alone",
			pod:  makePod("p", names.GPUMemoryResource, "20Gi"),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "small": reasonTexts[device.LargerThanDevice], "full": reasonTexts[device.NoShare],
				"memory-full": reasonTexts[device.NoMemory], "foreign": reasonTexts[device.Unrecorded],
			},
		},
		{
			name: "a model",
			pod:  annotated(sharePod("p", 100), names.GPUModelAnnotation, "nvidia-h*, x"),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "shared": reasonTexts[device.WrongModel], "small": reasonTexts[device.WrongModel], "cordoned": reasonTexts[device.WrongModel],
				"full": reasonTexts[device.WrongModel], "half-full": reasonTexts[device.WrongModel], "memory-full": reasonTexts[device.WrongModel], "foreign": reasonTexts[device.WrongModel],
			},
		},
		{
			name: "a minimum of memory",
			pod:  annotated(sharePod("p", 100), names.GPUMinMemoryAnnotation, "32Gi"),
			want: map[string]string{
				"plain": reasonTexts[device.NodeNotShared], "plugin": reasonTexts[device.NodeNotShared], "small": reasonTexts[device.TooLittleMemory], "full": reasonTexts[device.NoShare],
				"foreign": reasonTexts[device.Unrecorded],
			},
		},
		{
			name: "a device of the device plugin",
			pod:  makePod("p", "nvidia.com/gpu", "1"),
			want: map[string]string{
				"shared": reasonTexts[device.NodeIsShared], "h100": reasonTexts[device.NodeIsShared], "small": reasonTexts[device.NodeIsShared], "cordoned": reasonTexts[device.NodeIsShared],
				"full": reasonTexts[device.NodeIsShared], "half-full": reasonTexts[device.NodeIsShared], "memory-full": reasonTexts[device.NodeIsShared], "foreign": reasonTexts[device.NodeIsShared],
			},
		},
		{
			name: "no device, where nodes with devices are forbidden",
			args: gpuArgs(withNonGPUPods(config.NonGPUPodsForbid)),
			pod:  makePod("p"),
			want: map[string]string{
				"plugin": reasonTexts[device.Forbidden], "shared": reasonTexts[device.Forbidden], "h100": reasonTexts[device.Forbidden], "small": reasonTexts[device.Forbidden], "cordoned": reasonTexts[device.Forbidden],
				"full": reasonTexts[device.Forbidden], "half-full": reasonTexts[device.Forbidden], "memory-full": reasonTexts[device.Forbidden], "foreign": reasonTexts[device.Forbidden],
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = gpuArgs()
			}
			profile, _ := startProfile(t, tt.args, schedtest.Options{Nodes: nodes, Pods: pods})
			verdicts, status := profile.Filter(t.Context(), t, tt.pod)
			if !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			got := map[string]string{}
			for node, reason := range verdicts {
				if reason != "" {
					got[node] = reason
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected refusals (-want,+got):\n%s", diff)
			}
		})
	}
}

// Every reason to refuse a node has a text of its own, and the right code: it is
// what decides whether preemption is tried.
func TestRefusedNodes(t *testing.T) {
	tests := []struct {
		name   string
		node   *corev1.Node
		reason device.InvalidReason
		want   string
	}{
		{"sharing", labeled(gpuNode("n", 1), names.GPUSharingLabel, "yes"), device.InvalidSharing, invalidTexts[device.InvalidSharing]},
		{"device plugin", labeled(labeled(pluginNode("n", a100, 1), names.GPUSharingLabel, "true"), "nvidia.com/gpu.count", "1"), device.AdvertisesDevicePlugin, invalidTexts[device.AdvertisesDevicePlugin]},
		{"time-slicing", labeled(gpuNode("n", 1), "nvidia.com/gpu.replicas", "4"), device.TimeSliced, invalidTexts[device.TimeSliced]},
		{"MIG", labeled(gpuNode("n", 1), "nvidia.com/mig-1g.5gb.count", "7"), device.Partitioned, invalidTexts[device.Partitioned]},
		{"count", labeled(gpuNode("n", 1), "nvidia.com/gpu.count", "many"), device.InvalidCount, "node(s) were labeled as shared and had a number of devices that is not from 1 to 16"},
		{"too many", labeled(gpuNode("n", 1), "nvidia.com/gpu.count", "17"), device.InvalidCount, "node(s) were labeled as shared and had a number of devices that is not from 1 to 16"},
		{"no count", labeled(gpuNode("n", 1), "nvidia.com/gpu.count", ""), device.InvalidCount, invalidTexts[device.InvalidCount]},
		{"memory", labeled(gpuNode("n", 1), "nvidia.com/gpu.memory", "0"), device.InvalidDeviceMemory, invalidTexts[device.InvalidDeviceMemory]},
		{"replicas", labeled(gpuNode("n", 1), "nvidia.com/gpu.replicas", "x"), device.InvalidReplicas, invalidTexts[device.InvalidReplicas]},
		{"cordon", annotated(gpuNode("n", 1), names.GPUCordonedAnnotation, "all"), device.InvalidCordon, invalidTexts[device.InvalidCordon]},
		{"UUIDs", annotated(gpuNode("n", 1), names.GPUUUIDsAnnotation, "GPU-a,GPU-b"), device.InvalidUUIDs, invalidTexts[device.InvalidUUIDs]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{tt.node, gpuNode("fine", 1)}})
			if got := device.ParseNode(tt.node, pl.nodeKeys).Invalid.Reason; got != tt.reason {
				t.Fatalf("the node is refused for %q, want %q", got, tt.reason)
			}
			pod := sharePod("p", 100)
			state := profile.NewCycle(t.Context(), t, pod)
			status := pl.Filter(t.Context(), state, pod, nodeInfo(t, profile, "n"))
			if got := status.Message(); got != tt.want || status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("want %q (unresolvable), got %q (%v)", tt.want, got, status.Code())
			}
		})
	}
}

// Only what evicting pods can cure is left to preemption.
func TestResolvable(t *testing.T) {
	for r := device.Fits + 1; r < device.Reasons; r++ {
		want := r == device.NoShare || r == device.NoMemory || r == device.Unrecorded || r == device.UsedOutsideShares || r == device.SharesHeld
		if got := r.Resolvable(); got != want {
			t.Errorf("%v: want %t, got %t", r, want, got)
		}
		text := reasonText(r, &device.Node{Kind: device.NodeInvalid})
		if !strings.HasPrefix(text, "node(s) ") || strings.Contains(text, "%") {
			t.Errorf("%v: unfit reason %q", r, text)
		}
		if r.String() == "Unknown" {
			t.Errorf("reason %d has no label", r)
		}
	}
}

func TestPreFilterRefuses(t *testing.T) {
	nodes := []*corev1.Node{makeNode("plain", nil), gpuNode("a", 2), labeled(gpuNode("b", 1), "nvidia.com/gpu.memory", "81920")}
	tests := []struct {
		name  string
		nodes []*corev1.Node
		pod   *corev1.Pod
		want  string
	}{
		{
			name: "1500 thousandths", pod: sharePod("p", 1500),
			want: `the pod can never be scheduled: container "main": spec.containers[0].resources.limits[berth.dev/gpu-milli]: "1500" is neither a share nor whole devices`,
		},
		{
			name: "both forms", pod: makePod("p", names.GPUMilliResource, "500", "nvidia.com/gpu", "1"),
			want: "no node offers both",
		},
		{
			name: "a resource that does not exist", pod: makePod("p", "berth.dev/gpu", "1"),
			want: `"berth.dev/gpu" is not a resource that Berth supports`,
		},
		{
			name: "more memory than any device", pod: makePod("p", names.GPUMemoryResource, "100Gi"),
			want: "the largest berth.dev/gpu-memory that a container can be given here is 80Gi",
		},
		{
			name: "more memory than a device of the model", pod: annotated(makePod("p", names.GPUMemoryResource, "100Gi"), names.GPUModelAnnotation, "*"),
			want: "80Gi",
		},
		{
			name: "more devices than any node", pod: sharePod("p", 3000),
			want: "no node has as many devices as a container asks for",
		},
		{
			name: "more memory in total than any device", pod: annotated(sharePod("p", 100), names.GPUMinMemoryAnnotation, "90Gi"),
			want: "no node's devices have the memory of annotation berth.dev/gpu-min-memory: they have up to 80Gi",
		},
		{
			name: "a model that is nowhere", pod: annotated(sharePod("p", 100), names.GPUModelAnnotation, "L4"),
			want: `no node has a GPU model that matches annotation berth.dev/gpu-model: there are "nvidia-a100"`,
		},
		{
			name: "a model that is nowhere, for the device plugin", pod: annotated(makePod("p", "nvidia.com/gpu", "1"), names.GPUModelAnnotation, "L4"),
			want: "there are none",
		},
		{
			name: "a percent sign", pod: annotated(sharePod("p", 100), names.GPUModelAnnotation, "A100%d"),
			want: `"A100\x25d"`,
		},
		{
			name: "no shared node", nodes: []*corev1.Node{makeNode("plain", nil), pluginNode("plugin", a100, 1)}, pod: sharePod("p", 100),
			want: "no node shares its devices",
		},
		{
			name: "only refused nodes", nodes: []*corev1.Node{labeled(gpuNode("n", 1), "nvidia.com/gpu.count", "x")}, pod: sharePod("p", 100),
			want: "no node can share its devices: 1 node(s)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.nodes == nil {
				tt.nodes = nodes
			}
			profile, _ := startProfile(t, gpuArgs(), schedtest.Options{Nodes: tt.nodes})
			_, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), tt.pod)
			if status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("want an unresolvable refusal, got %v", status)
			}
			if got := status.Message(); !strings.Contains(got, tt.want) || strings.Contains(got, "%") {
				t.Errorf("want %q and no percent sign, got %q", tt.want, got)
			}
		})
	}
}

func TestPreFilterSkips(t *testing.T) {
	daemon := makePod("daemon")
	daemon.OwnerReferences = makeOwner("apps/v1", "DaemonSet")
	lookalike := makePod("lookalike")
	lookalike.OwnerReferences = makeOwner("example.com/v1", "DaemonSet")
	tests := []struct {
		name   string
		policy config.NonGPUPodPolicy
		pod    *corev1.Pod
		want   bool
	}{
		{"no device, allowed", config.NonGPUPodsAllow, makePod("p"), true},
		{"no device, to be avoided", config.NonGPUPodsAvoid, makePod("p"), true},
		{"no device, forbidden", config.NonGPUPodsForbid, makePod("p"), false},
		{"no device, forbidden, of a DaemonSet", config.NonGPUPodsForbid, daemon, true},
		{"no device, forbidden, of something called DaemonSet", config.NonGPUPodsForbid, lookalike, false},
		{"a share", config.NonGPUPodsAllow, sharePod("p", 100), false},
		{"a device of the device plugin", config.NonGPUPodsAllow, makePod("p", "nvidia.com/gpu", "1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, _ := startProfile(t, gpuArgs(withNonGPUPods(tt.policy)), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
			if got := profile.Skips(t.Context(), t, tt.pod); got != tt.want {
				t.Errorf("want %t, got %t", tt.want, got)
			}
		})
	}
}
