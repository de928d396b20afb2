// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// NodeView is what one node has and what its pods hold, computed from the API
// objects alone: the node, its pods, and the annotations of their Bindings. It
// does not ask any plugin.
type NodeView struct {
	// Object is the node. It must not be changed.
	Object *corev1.Node
	// Allocatable and Requested are what the node offers and what its pods ask for.
	Allocatable, Requested Amounts
	// Devices is the node's side of its devices. It must not be changed.
	Devices *device.Node
	// Free is what is left of each device; meaningful if Counted is true. On a node
	// whose devices a device plugin hands out the first ones are taken.
	Free device.Usage
	// Counted is whether Free is known: the node is shared, or has a device plugin.
	Counted bool
	// Unrecorded is how many pods use devices of the node without a record of which
	// that can be believed. They are missing from Free.
	Unrecorded int
}

// Amounts are amounts of what every node has.
type Amounts struct {
	// CPUMilli is in milli-CPU and MemoryBytes in bytes.
	CPUMilli, MemoryBytes int64
	// Pods is a number of pods.
	Pods int64
}

// CPUFree returns the CPU that no pod requests, in milli-CPU. It may be negative.
func (v *NodeView) CPUFree() int64 { return v.Allocatable.CPUMilli - v.Requested.CPUMilli }

// GPUMilli returns the thousandths of all devices of the node that are not
// cordoned, and how many of them are free.
func (v *NodeView) GPUMilli() (capacity, free int64) {
	if !v.Counted {
		return 0, 0
	}
	empty := device.NewUsage(v.Free.Devices(), v.Free.Capacity().MemoryMiB, v.Free.Cordoned())
	return empty.IdleMilli(), v.Free.IdleMilli()
}

// memoView is a view that is good while the NodeInfo is unchanged.
type memoView struct {
	NodeView

	generation int64
}

// NodeNames returns the names of all nodes in the order in which filters look at
// them.
func (e *Engine) NodeNames() ([]string, error) {
	nodes, err := e.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(nodes))
	for _, node := range nodes {
		all = append(all, node.Node().Name)
	}
	return all, nil
}

// Node returns what a node has and what its pods hold now. Asking for a node that
// has not changed costs next to nothing. The view must not be changed, and is out
// of date after the next change.
func (e *Engine) Node(name string) (*NodeView, error) {
	if err := e.cache.UpdateSnapshot(e.logger, e.snapshot); err != nil {
		return nil, err
	}
	info, err := e.snapshot.Get(name)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", name, err)
	}
	memo := e.views[name]
	if memo != nil && memo.generation == info.GetGeneration() {
		return &memo.NodeView, nil
	}
	fresh := &memoView{generation: info.GetGeneration()}
	fresh.Object = info.Node()
	if memo != nil && memo.Object == fresh.Object {
		fresh.Devices = memo.Devices
	} else {
		fresh.Devices = device.ParseNode(fresh.Object, e.keys)
	}
	fresh.Allocatable, fresh.Requested = amountsOf(info.GetAllocatable()), amountsOf(info.GetRequested())
	fresh.Allocatable.Pods, fresh.Requested.Pods = int64(info.GetAllocatable().GetAllowedPodNumber()), int64(len(info.GetPods()))
	fresh.count(info, e.keys)
	e.views[name] = fresh
	return &fresh.NodeView, nil
}

func amountsOf(r fwk.Resource) Amounts {
	return Amounts{CPUMilli: r.GetMilliCPU(), MemoryBytes: r.GetMemory()}
}

// count takes from the devices what the pods on the node hold.
func (v *NodeView) count(info fwk.NodeInfo, keys *device.NodeKeys) {
	if v.Free, v.Counted = v.Devices.Usage(); !v.Counted {
		return
	}
	if v.Devices.Kind == device.NodeShared {
		for _, podInfo := range info.GetPods() {
			v.countPod(podInfo.GetPod())
		}
		return
	}
	requested := info.GetRequested().GetScalarResources()
	for _, resource := range keys.PluginResources {
		v.Free.HandOut(requested[resource])
	}
}

// countPod takes what one pod holds according to its record.
func (v *NodeView) countPod(pod *corev1.Pod) {
	// Constraints are over once a pod is bound, and no other form of request is
	// recorded.
	request, err := device.ParsePod(&corev1.Pod{Spec: pod.Spec}, nil)
	if err == nil && request.Kind != device.RequestShares {
		return
	}
	if err == nil {
		var assignment device.Assignment
		if assignment, err = device.ParseAssignment(pod.Annotations, request); err == nil {
			holding := assignment.PodUsage(request.Containers)
			v.Free.Add(&holding)
			return
		}
	}
	v.Unrecorded++
}

// assignedTo returns the record of the devices that a bound pod was given.
func assignedTo(pod *corev1.Pod) string { return pod.Annotations[names.GPUAssignedAnnotation] }

// DeviceKeys returns by which labels and resources the configuration tells the
// devices of nodes: those of the first profile with GPUDevice, and otherwise the
// defaults. schedulerName restricts it to one profile; empty is all.
func DeviceKeys(c *schedconfig.KubeSchedulerConfiguration, schedulerName string) *device.NodeKeys {
	for i := range c.Profiles {
		if schedulerName != "" && c.Profiles[i].SchedulerName != schedulerName {
			continue
		}
		for _, plugin := range c.Profiles[i].PluginConfig {
			if args, ok := plugin.Args.(*config.GPUDeviceArgs); ok {
				return keysOf(args)
			}
		}
	}
	defaults := device.DefaultNodeKeys()
	return &defaults
}

func keysOf(args *config.GPUDeviceArgs) *device.NodeKeys {
	labels := &args.NodeLabels
	keys := &device.NodeKeys{
		Count: labels.Count, Memory: labels.Memory, Product: labels.Product,
		Replicas: labels.Replicas, MIGPrefix: labels.MIGPrefix,
	}
	for _, name := range args.DeviceResources {
		keys.PluginResources = append(keys.PluginResources, corev1.ResourceName(name))
	}
	return keys
}
