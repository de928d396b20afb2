// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// sharedNode is a node as GPU feature discovery labels it, shared.
func sharedNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "gpu-0",
		Labels: map[string]string{
			"nvidia.com/gpu.count":    "4",
			"nvidia.com/gpu.memory":   "81920",
			"nvidia.com/gpu.product":  "NVIDIA-A100-SXM4-80GB",
			"nvidia.com/gpu.replicas": "1",
			"nvidia.com/mig.strategy": "single",
			"nvidia.com/mig.capable":  "true",
			names.GPUSharingLabel:     "true",
		},
		Annotations: map[string]string{},
	}}
}

func TestParseNode(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   *Node
	}{
		{
			name:   "shared",
			change: func(*corev1.Node) {},
			want:   &Node{Kind: NodeShared, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "shared, by UUID, some devices cordoned",
			change: func(n *corev1.Node) {
				n.Annotations[names.GPUCordonedAnnotation] = "3, 1"
				n.Annotations[names.GPUUUIDsAnnotation] = "GPU-a0,GPU-b1, GPU-c2,GPU-d3"
			},
			want: &Node{
				Kind: NodeShared, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb",
				Cordoned: SetOf(1, 3), UUIDs: []string{"GPU-a0", "GPU-b1", "GPU-c2", "GPU-d3"},
			},
		},
		{
			name: "annotations that say nothing",
			change: func(n *corev1.Node) {
				n.Annotations[names.GPUCordonedAnnotation] = ""
				n.Annotations[names.GPUUUIDsAnnotation] = " "
			},
			want: &Node{Kind: NodeShared, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "shared, the device plugin gone for good",
			change: func(n *corev1.Node) {
				n.Status.Capacity = corev1.ResourceList{plugin: resource.MustParse("0")}
				n.Status.Allocatable = corev1.ResourceList{plugin: resource.MustParse("0")}
			},
			want: &Node{Kind: NodeShared, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "shared, the model unknown",
			change: func(n *corev1.Node) {
				delete(n.Labels, "nvidia.com/gpu.product")
				delete(n.Labels, "nvidia.com/gpu.replicas")
			},
			want: &Node{Kind: NodeShared, Devices: 4, MemoryMiB: 81920},
		},
		{
			name: "a device plugin's",
			change: func(n *corev1.Node) {
				n.Labels[names.GPUSharingLabel] = "false"
				n.Status.Capacity = corev1.ResourceList{plugin: resource.MustParse("4")}
				n.Status.Allocatable = corev1.ResourceList{plugin: resource.MustParse("3")}
			},
			want: &Node{Kind: NodeDevicePlugin, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "a device plugin's, time-sliced beyond the model",
			change: func(n *corev1.Node) {
				delete(n.Labels, names.GPUSharingLabel)
				n.Labels["nvidia.com/gpu.replicas"] = "10"
				n.Status.Capacity = corev1.ResourceList{plugin: resource.MustParse("40")}
			},
			want: &Node{Kind: NodeDevicePlugin, Devices: 40, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name: "neither shared nor a device plugin's",
			change: func(n *corev1.Node) {
				delete(n.Labels, names.GPUSharingLabel)
				n.Annotations[names.GPUCordonedAnnotation] = "nonsense"
			},
			want: &Node{Kind: NodeWithoutDevices, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"},
		},
		{
			name:   "no devices at all",
			change: func(n *corev1.Node) { n.Labels, n.Annotations = nil, nil },
			want:   &Node{Kind: NodeWithoutDevices},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := sharedNode()
			tt.change(node)
			keys := DefaultNodeKeys()
			if diff := cmp.Diff(tt.want, ParseNode(node, &keys)); diff != "" {
				t.Errorf("unexpected node (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestParseNodeRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
		reason InvalidReason
		want   string
	}{
		{
			name:   "advertises a device plugin's resource",
			change: func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{plugin: resource.MustParse("4")} },
			reason: AdvertisesDevicePlugin,
			want:   `status.capacity[nvidia.com/gpu]: is advertised on a node labeled berth.dev/gpu-sharing=true, and only one can hand out its devices: keep the device plugin off the node (nvidia.com/gpu.deploy.device-plugin=false), or remove the label`,
		},
		{
			name:   "a device plugin that is away",
			change: func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{plugin: resource.MustParse("4")} },
			reason: AdvertisesDevicePlugin,
			want:   `status.capacity[nvidia.com/gpu]: is still there on a node labeled berth.dev/gpu-sharing=true, so the device plugin may be restarting: the kubelet removes it five minutes after the plugin is gone`,
		},
		{
			name: "advertises MIG devices",
			change: func(n *corev1.Node) {
				n.Status.Capacity = corev1.ResourceList{"nvidia.com/mig-1g.5gb": resource.MustParse("7")}
			},
			reason: AdvertisesDevicePlugin,
		},
		{
			name:   "time-slicing",
			change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.replicas"] = "4" },
			reason: TimeSliced,
			want:   `metadata.labels[nvidia.com/gpu.replicas]: "4" indicates time-slicing, which hands out the same devices: turn that off on this node, or remove the label berth.dev/gpu-sharing`,
		},
		{name: "replicas that are no number", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.replicas"] = "many" }, reason: InvalidReplicas},
		{name: "MIG mode", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.replicas"] = "0" }, reason: Partitioned},
		{name: "MIG devices, single", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb" }, reason: Partitioned},
		{name: "MIG devices, invalid", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-INVALID" }, reason: Partitioned},
		{
			name:   "MIG devices, mixed",
			change: func(n *corev1.Node) { n.Labels["nvidia.com/mig-3g.40gb.count"] = "2" },
			reason: Partitioned,
			want:   `metadata.labels[nvidia.com/mig-3g.40gb.count]: "2" indicates MIG devices, which take no shares: turn that off on this node, or remove the label berth.dev/gpu-sharing`,
		},
		{
			name:   "a sharing label that is neither",
			change: func(n *corev1.Node) { n.Labels[names.GPUSharingLabel] = "yes" },
			reason: InvalidSharing,
			want:   `metadata.labels[berth.dev/gpu-sharing]: "yes" is neither "true" nor "false": set one of them, or remove the label`,
		},
		{name: "an empty sharing label", change: func(n *corev1.Node) { n.Labels[names.GPUSharingLabel] = "" }, reason: InvalidSharing},
		{
			name:   "no count",
			change: func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.count") },
			reason: InvalidCount,
			want:   `metadata.labels[nvidia.com/gpu.count]: must be the number of devices of a shared node, 1 to 16: run GPU feature discovery, or set it`,
		},
		{name: "no devices", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "0" }, reason: InvalidCount},
		{name: "a negative count", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "-4" }, reason: InvalidCount},
		{name: "more devices than the model holds", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.count"] = "17" }, reason: InvalidCount},
		{name: "no memory", change: func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.memory") }, reason: InvalidDeviceMemory},
		{name: "memory with a unit", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.memory"] = "80Gi" }, reason: InvalidDeviceMemory},
		{name: "memory beyond belief", change: func(n *corev1.Node) { n.Labels["nvidia.com/gpu.memory"] = "9223372036854775807" }, reason: InvalidDeviceMemory},
		{
			name:   "a cordoned device that is not there",
			change: func(n *corev1.Node) { n.Annotations[names.GPUCordonedAnnotation] = "1,4" },
			reason: InvalidCordon,
			want:   `metadata.annotations[berth.dev/gpu-cordoned]: "1,4" is not a list of devices: write indexes from 0 to 3 separated by commas, or remove it`,
		},
		{name: "a range of cordoned devices", change: func(n *corev1.Node) { n.Annotations[names.GPUCordonedAnnotation] = "0-2" }, reason: InvalidCordon},
		{
			name:   "too few UUIDs",
			change: func(n *corev1.Node) { n.Annotations[names.GPUUUIDsAnnotation] = "GPU-a,GPU-b" },
			reason: InvalidUUIDs,
			want:   `metadata.annotations[berth.dev/gpu-uuids]: "GPU-a,GPU-b" names 2 devices of 4: list the UUID of each, in the order of their indexes, or remove it`,
		},
		{name: "a UUID twice", change: func(n *corev1.Node) { n.Annotations[names.GPUUUIDsAnnotation] = "GPU-a,GPU-b,GPU-c,GPU-a" }, reason: InvalidUUIDs},
		{name: "words for UUIDs", change: func(n *corev1.Node) { n.Annotations[names.GPUUUIDsAnnotation] = "all,none,void,GPU-a" }, reason: InvalidUUIDs},
		{name: "indexes for UUIDs", change: func(n *corev1.Node) { n.Annotations[names.GPUUUIDsAnnotation] = "3,2,1,0" }, reason: InvalidUUIDs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := sharedNode()
			tt.change(node)
			keys := DefaultNodeKeys()
			got := ParseNode(node, &keys)
			if got.Kind != NodeInvalid || got.Invalid.Reason != tt.reason {
				t.Fatalf("got kind %d, refusal %q (%s), want %q", got.Kind, got.Invalid.Reason, got.Invalid, tt.reason)
			}
			if diff := cmp.Diff(tt.want, got.Invalid.Error()); tt.want != "" && diff != "" {
				t.Errorf("unexpected text (-want,+got):\n%s", diff)
			}
			if state := usageOf(got); state.Devices() != 0 {
				t.Errorf("a refused node offers %d devices", state.Devices())
			}
		})
	}
}

func TestNodeCheck(t *testing.T) {
	keys := DefaultNodeKeys()
	shared := ParseNode(sharedNode(), &keys)
	cordoned := sharedNode()
	cordoned.Annotations[names.GPUCordonedAnnotation] = "0,1,2"
	refused := sharedNode()
	refused.Labels["nvidia.com/gpu.replicas"] = "2"
	pluginNode := sharedNode()
	delete(pluginNode.Labels, names.GPUSharingLabel)
	pluginNode.Status.Capacity = corev1.ResourceList{plugin: resource.MustParse("4")}

	parse := func(pod *corev1.Pod) *Request {
		r, err := ParsePod(pod, podKeys)
		must(t, err)
		return r
	}
	share := parse(podOf(container("a", milli, "500")))
	tests := []struct {
		name       string
		node       *Node
		request    *Request
		full       bool
		want       Reason
		resolvable bool
	}{
		{name: "a share", node: shared, request: share, want: Fits},
		{name: "no devices wanted", node: ParseNode(refused, &keys), request: parse(podOf(container("a"))), want: Fits},
		{name: "a share on a device plugin's node", node: ParseNode(pluginNode, &keys), request: share, want: NodeNotShared},
		{name: "a share on a node without devices", node: ParseNode(&corev1.Node{}, &keys), request: share, want: NodeNotShared},
		{name: "a share on a refused node", node: ParseNode(refused, &keys), request: share, want: InvalidNode},
		{name: "a device plugin's pod on a shared node", node: shared, request: parse(podOf(container("a", plugin, "1"))), want: NodeIsShared},
		{name: "a device plugin's pod on its node", node: ParseNode(pluginNode, &keys), request: parse(podOf(container("a", plugin, "9"))), want: Fits},
		{name: "another model", node: shared, request: parse(annotated(podOf(container("a", milli, "1")), names.GPUModelAnnotation, "*h100*")), want: WrongModel},
		{name: "more memory in total", node: shared, request: parse(annotated(podOf(container("a", milli, "1")), names.GPUMinMemoryAnnotation, "80.5Gi")), want: TooLittleMemory},
		{name: "more memory than a device", node: shared, request: parse(podOf(container("a", memory, "81Gi"))), want: LargerThanDevice},
		{name: "more devices than there are", node: shared, request: parse(podOf(container("a", milli, "5000"))), want: TooFewDevices},
		{name: "more devices than are not cordoned", node: ParseNode(cordoned, &keys), request: parse(podOf(container("a", milli, "2000"))), want: TooFewDevices},
		{name: "the last that is not cordoned", node: ParseNode(cordoned, &keys), request: share, want: Fits},
		{name: "all in use", node: shared, request: share, full: true, want: NoShare, resolvable: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := usageOf(tt.node)
			if tt.full {
				for d := range state.Devices() {
					state.Take(d, Share{Milli: 501, MemoryMiB: 1})
				}
			}
			got := check(tt.node, &state, tt.request)
			if got != tt.want || got.Resolvable() != tt.resolvable {
				t.Errorf("got %v, resolvable %t, want %v", got, got.Resolvable(), tt.want)
			}
		})
	}
}

func TestHandOut(t *testing.T) {
	usage := usageOf(&Node{Kind: NodeDevicePlugin, Devices: 4, MemoryMiB: 1000})
	whole := func(devices int) *Request {
		return &Request{Kind: RequestDevicePlugin, Containers: []ContainerRequest{{Devices: devices, Milli: 1000}}}
	}
	usage.AddPluginAllocated(3)
	if !usage.Fits(whole(1)) || usage.Fits(whole(2)) || usage.Overcommitted() != 0 || usage.InUse() != 3 {
		t.Error("want room for one device of four with three in use")
	}
	usage.AddPluginAllocated(6)
	if usage.Fits(whole(1)) || usage.Overcommitted() != SetOf(3) {
		t.Error("more in use than there are must leave nothing free, and show")
	}
	usage.AddPluginAllocated(-9)
	if !usage.Fits(whole(4)) || usage.InUse() != 0 {
		t.Error("want room for all that were taken back")
	}
	if _, ok := (&Node{Kind: NodeDevicePlugin, Devices: 17}).Usage(); ok {
		t.Error("want no usage of more devices than the model holds")
	}
}
