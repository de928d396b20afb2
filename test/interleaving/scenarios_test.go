// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const memoryMiB = 40960

// gpuArgs are the arguments of the plugin.
func gpuArgs() *config.GPUDeviceArgs {
	return &config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceBestFit},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
}

// gpuNode is a node that shares its devices.
func gpuNode(name string, devices int) *corev1.Node {
	allocatable := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}, Labels: map[string]string{
			names.GPUSharingLabel: "true", "nvidia.com/gpu.count": strconv.Itoa(devices), "nvidia.com/gpu.memory": strconv.Itoa(memoryMiB), "nvidia.com/gpu.product": "A100",
		}},
		Status: corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
	}
}

// sharedDevices is how many devices a node shares, 0 if it shares none.
func sharedDevices(node *corev1.Node) int {
	if node.Labels[names.GPUSharingLabel] != "true" {
		return 0
	}
	devices, _ := strconv.Atoi(node.Labels["nvidia.com/gpu.count"])
	return devices
}

// limitPod asks for an amount of a resource.
func limitPod(name, resourceName, amount string) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// sharePod asks for thousandths of a device.
func sharePod(name string, milli int) *corev1.Pod {
	return limitPod(name, names.GPUMilliResource, strconv.Itoa(milli))
}

// onNode keeps a pod to one node, which only the tests' own Filter reads.
func onNode(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

// wholePod is a pod that asks a device plugin for devices.
func wholePod(name string, devices int) *corev1.Pod {
	return limitPod(name, "nvidia.com/gpu", strconv.Itoa(devices))
}

// bound puts a pod on a node, as if a Binding had been written.
func bound(pod *corev1.Pod, node, device string, milli int) *corev1.Pod {
	pod.Spec.NodeName = node
	if device != "" {
		pod.Annotations = map[string]string{
			names.GPUDevicesAnnotationPrefix + "main": device,
			names.GPUAssignedAnnotation:               fmt.Sprintf("main=%s:%dm:%dMi", device, milli, memoryMiB*milli/1000),
		}
	}
	return pod
}

// onNodeWithoutRecord puts a pod on the node as a scheduler does that knows of no records.
func onNodeWithoutRecord(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = "n"
	return pod
}

// notShared is a node whose devices a device plugin hands out.
func notShared(node *corev1.Node) {
	node.Labels[names.GPUSharingLabel] = "false"
	advertise(node, node.Labels["nvidia.com/gpu.count"])
}

func shared(node *corev1.Node) {
	node.Labels[names.GPUSharingLabel] = "true"
	advertise(node, "0")
}

func advertise(node *corev1.Node, devices string) {
	node.Status.Capacity = node.Status.Capacity.DeepCopy()
	node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse(devices)
	node.Status.Allocatable = node.Status.Capacity
}

// changed returns an object after a change.
func changed[T any](object T, changes ...func(T)) T {
	for _, change := range changes {
		change(object)
	}
	return object
}

// uuids sets the list of a node's devices.
func uuids(list string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Annotations[names.GPUUUIDsAnnotation] = list }
}

func editNode(name string, change func(*corev1.Node)) edit {
	return edit{name: name, do: func(s *server) { s.editNode("n", change) }}
}

func deletePod(name string) edit {
	return edit{name: name + " is deleted", do: func(s *server) { s.deletePod(name) }}
}

// createAgain creates a pod of that name once the first one is deleted.
func createAgain(name string, milli int) edit {
	return edit{name: name + " is created again", after: name + " is deleted", do: func(s *server) {
		pod := sharePod(name, milli)
		pod.UID = types.UID(name + "2")
		s.putPod(pod)
	}}
}

func labelPod(name string) edit {
	return edit{name: name + " gets a label", do: func(s *server) {
		s.editPod(name, func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} })
	}}
}

func terminate(name string) edit {
	return edit{name: name + " ends", do: func(s *server) {
		s.editPod(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	}}
}

func createPod(name string, milli int) edit {
	return edit{name: name + " is created", do: func(s *server) { s.putPod(sharePod(name, milli)) }}
}

// notMixed is the rule that a node has pods with shares or pods of a device plugin.
func notMixed(s *server) string {
	shares, whole := "", ""
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		switch pod := s.pods[name]; {
		case pod.Spec.NodeName == "":
		case pod.Annotations[names.GPUAssignedAnnotation] != "":
			shares = name
		default:
			whole = name
		}
	}
	if shares != "" && whole != "" {
		return fmt.Sprintf("pod %s uses the devices of a device plugin where %s holds a share", whole, shares)
	}
	return ""
}

// Bounds of time: a request to fence a pod is given up after 3 s, and a Binding is not sent again
// after 30 s.
const (
	soon   = 6 * time.Second
	longer = 40 * time.Second
)

// scenarios are small clusters, each with the events that belong together.
var scenarios = []*scenario{
	{
		name: "three pods after a handover", standbys: 1, kill: true, alike: []string{"a", "b", "c"},
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600), sharePod("c", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 1}, budget: 2 * time.Minute,
	},
	{
		name: "three pods in an overlap", standbys: 1, overlap: true, alike: []string{"a", "b", "c"},
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600), sharePod("c", 600)},
		bounds: bounds{looks: true, attempts: 1}, budget: 2 * time.Minute,
	},
	{
		name: "two pods in an overlap", standbys: 1, overlap: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 1}, budget: 2 * time.Minute,
	},
	{
		name: "handover", standbys: 1, kill: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 1},
	},
	{
		name: "lost answers", lose: true, repeat: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		edits:  []edit{labelPod("a")},
		bounds: bounds{attempts: 1, faults: 1, ticks: []time.Duration{longer}},
	},
	{
		name:   "one process",
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		edits:  []edit{deletePod("a"), createAgain("a", 700)},
		bounds: bounds{attempts: 2, handlers: true, cycles: 3},
	},
	{
		name: "given up", refuseBind: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{attempts: 2, cycles: 3, faults: 1},
	},
	{
		name: "denied", denied: "a", strandable: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{attempts: 2},
		bound:  []string{"b"},
	},
	{
		name: "stale standby", standbys: 1, kill: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		edits:  []edit{createPod("a", 600), createPod("b", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 1},
	},
	{
		name: "slow handlers", standbys: 1, kill: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 1, handlers: true},
	},
	{
		name: "overlap", standbys: 1, overlap: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 2},
	},
	{
		name: "not fenced", standbys: 1, kill: true, refuse: true, alike: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 2, ticks: []time.Duration{soon}},
	},
	{
		name: "too large", standbys: 1, kill: true, full: "a", strandable: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		bounds: bounds{looks: true, attempts: 1, faults: 1, ticks: []time.Duration{soon}},
		bound:  []string{"b"},
	},
	{
		name:   "all kinds of requests",
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{limitPod("a", names.GPUMemoryResource, "30Gi"), sharePod("b", 600), sharePod("c", 2000)},
		edits:  []edit{deletePod("a")},
		bounds: bounds{attempts: 1, cycles: 2},
	},
	{
		name:   "UUIDs",
		nodes:  []*corev1.Node{changed(gpuNode("n", 2), uuids("GPU-x,GPU-y"))},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		edits:  []edit{editNode("the devices change places", uuids("GPU-y,GPU-x"))},
		bounds: bounds{attempts: 1},
	},
	{
		name:  "the list of devices",
		nodes: []*corev1.Node{changed(gpuNode("n", 2), uuids("GPU-x,GPU-y"))},
		pods:  []*corev1.Pod{sharePod("a", 600), sharePod("b", 600), sharePod("c", 300)},
		edits: []edit{
			editNode("a device is replaced", uuids("GPU-z,GPU-y")), editNode("the devices change places", uuids("GPU-y,GPU-x")),
		},
		bounds: bounds{attempts: 1},
	},
	{
		name:   "less memory",
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 250), sharePod("b", 250), bound(sharePod("c", 250), "n", "0", 250), bound(sharePod("d", 250), "n", "0", 250)},
		edits:  []edit{editNode("the devices have 24 MiB less", func(node *corev1.Node) { node.Labels["nvidia.com/gpu.memory"] = strconv.Itoa(memoryMiB - 24) })},
		bounds: bounds{attempts: 1}, shrinks: true, bound: []string{"a", "b", "c", "d"},
	},
	{
		name:   "sharing begins",
		nodes:  []*corev1.Node{changed(gpuNode("n", 1), notShared)},
		pods:   []*corev1.Pod{sharePod("a", 600), wholePod("w", 1)},
		edits:  []edit{editNode("the node is shared", shared)},
		bounds: bounds{attempts: 2}, rule: notMixed, strandable: true,
	},
	{
		name:   "sharing ends",
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), wholePod("w", 1)},
		edits:  []edit{editNode("the node is shared no more", notShared), deletePod("a")},
		bounds: bounds{attempts: 2}, rule: notMixed, strandable: true,
	},
	{
		name: "group", group: []string{"a", "b"},
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600), sharePod("c", 600)},
		bounds: bounds{attempts: 1},
	},
	{
		name: "nominated", nominated: "z",
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{bound(sharePod("a", 400), "n", "0", 400), sharePod("b", 500), changed(sharePod("z", 1000), func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To(int32(10)) })},
		bounds: bounds{attempts: 1},
		args:   func(args *config.GPUDeviceArgs) { args.ScoringStrategy.Type = config.GPUDeviceLeastAllocated },
		rule: func(s *server) string {
			if b := s.pods["b"]; b != nil && s.pods["z"] != nil && strings.Contains(b.Annotations[names.GPUAssignedAnnotation], "=1:") {
				return "b was given the device that z is nominated for"
			}
			return ""
		},
	},
	{
		name: "restore", relist: true, restarted: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		edits:  []edit{{name: "etcd is restored", do: func(s *server) { s.restore() }}, deletePod("a")},
		bounds: bounds{attempts: 2, faults: 1},
	},
	{
		name: "lists anew", relist: true,
		nodes:  []*corev1.Node{gpuNode("n", 1)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600)},
		edits:  []edit{deletePod("a"), createAgain("a", 700), terminate("b")},
		bounds: bounds{attempts: 2, faults: 1},
	},
	{
		name: "foreign", foreign: true, strandable: true, lose: true,
		nodes: []*corev1.Node{gpuNode("n", 1)},
		pods:  []*corev1.Pod{sharePod("a", 300), sharePod("c", 300)},
		edits: []edit{{name: "another scheduler binds c", do: func(s *server) {
			if pod := s.pods["c"]; pod != nil && pod.Spec.NodeName == "" {
				s.putPod(onNodeWithoutRecord(pod.DeepCopy()))
			}
		}}, deletePod("c")},
		bounds: bounds{attempts: 1, faults: 1},
	},
	{
		name: "restart", kill: true,
		nodes:  []*corev1.Node{gpuNode("n", 2)},
		pods:   []*corev1.Pod{sharePod("a", 600), sharePod("b", 600), sharePod("c", 900)},
		bounds: bounds{looks: true, attempts: 1, faults: 1},
	},
}
