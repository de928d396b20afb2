// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/device"
)

// clusterUsage is what pods hold of nodes. It is kept from the API objects
// alone, apart from the engine: a device that was given away twice shows here.
type clusterUsage struct {
	keys     *device.NodeKeys
	workload *device.Workload // nil if no pod asks for devices

	nodes  []*nodeUsage
	byName map[string]*nodeUsage
	held   map[types.UID]podUsage

	capacity, used totals
	// idle is what devices have left, in thousandths, and causes the same by what
	// it is to the workload.
	idle   int64
	causes device.Fragmentation
	// largestDevice is the most memory that a device of the cluster has, in MiB.
	largestDevice int64
	// unrecorded counts pods that were bound without the devices that they ask for.
	unrecorded int
}

// totals are amounts over all nodes: milli-CPU, bytes, and thousandths of devices.
type totals struct {
	cpuMilli, memory, milli int64
}

// nodeUsage is one node's.
type nodeUsage struct {
	device *device.Node
	// usage is of the devices, if they are counted.
	usage   device.Usage
	counted bool
	cpuFree int64
	// blocked is what no pod uses of devices that a device plugin handed out, in
	// thousandths: the rest of a device that was given to a pod with a share of it.
	blocked int64
	// touched is whether a pod came to it.
	touched bool

	idle   int64
	causes device.Fragmentation
}

// podUsage is what a pod holds.
type podUsage struct {
	node             *nodeUsage
	cpuMilli, memory int64
	devices          device.PodUsage
	handedOut        int64
	blocked          int64
	milli            int64
}

// newClusterUsage starts with nodes on which nothing is used.
func newClusterUsage(nodes []*corev1.Node, keys *device.NodeKeys, workload *device.Workload) *clusterUsage {
	b := &clusterUsage{
		keys: keys, workload: workload,
		byName: make(map[string]*nodeUsage, len(nodes)), held: map[types.UID]podUsage{},
	}
	for _, node := range nodes {
		// A pod of another scheduler holds its share on a node of that one's pool; what is
		// free there is none of this one's.
		a := &nodeUsage{device: device.ParseNode(node, keys.AllPools()), cpuFree: node.Status.Allocatable.Cpu().MilliValue()}
		a.usage, a.counted = a.device.Usage()
		otherPool := device.ParseNode(node, keys).Kind == device.NodeInOtherPool
		a.counted = a.counted && !otherPool
		b.nodes = append(b.nodes, a)
		b.byName[node.Name] = a
		b.capacity.cpuMilli += a.cpuFree
		b.capacity.memory += node.Status.Allocatable.Memory().Value()
		if !otherPool {
			b.capacity.milli += int64(a.device.Devices) * device.MilliPerDevice
			b.largestDevice = max(b.largestDevice, a.device.MemoryMiB)
		}
		b.measure(a)
	}
	return b
}

// measure brings the sums up to date with a node that has changed.
func (b *clusterUsage) measure(a *nodeUsage) {
	if !a.counted {
		return
	}
	b.idle -= a.idle
	a.idle = a.usage.IdleMilli() + a.blocked
	b.idle += a.idle
	if b.workload == nil {
		return
	}
	causes := b.workload.For(a.device).Fragmentation(&a.usage, a.cpuFree)
	causes[device.Q2LackGPU] += float64(a.blocked)
	for cause := range causes {
		b.causes[cause] += causes[cause] - a.causes[cause]
	}
	a.causes = causes
}

// add counts a bound pod, and returns the compute that it was given, in
// thousandths of a device, and whether some of it is another pod's or does not
// exist. A pod on a node that is not there holds nothing.
func (b *clusterUsage) add(pod *corev1.Pod, d *podRequest) (milli int64, overcommitted bool) {
	a, ok := b.byName[pod.Spec.NodeName]
	if !ok {
		return 0, false
	}
	h := podUsage{node: a, cpuMilli: d.cpuMilli, memory: d.memory}
	held := b.keys.HeldOn(a.device, pod)
	if held.Unknown != nil {
		b.unrecorded++ // bound by a profile without GPUDevice, or its record cannot be read
	}
	h.devices, h.handedOut = held.Used, held.Whole
	h.milli = h.devices.Milli()
	before := a.usage.Overcommitted()
	a.usage.Add(&h.devices)
	overcommitted = a.usage.Overcommitted() != before
	if h.handedOut > 0 {
		asked := h.handedOut * device.MilliPerDevice
		if d.less {
			asked = d.milli(a.device.MemoryMiB)
		}
		h.blocked = h.handedOut*device.MilliPerDevice - asked
		h.milli += asked
		a.usage.AddPluginAllocated(h.handedOut)
		a.blocked += h.blocked
	}
	a.cpuFree -= h.cpuMilli
	b.used.cpuMilli += h.cpuMilli
	b.used.memory += h.memory
	b.used.milli += h.milli
	b.held[pod.UID] = h
	b.measure(a)
	return h.milli, overcommitted
}

// remove takes off a pod that is gone.
func (b *clusterUsage) remove(uid types.UID) {
	h, ok := b.held[uid]
	if !ok {
		return
	}
	delete(b.held, uid)
	h.node.usage.Remove(&h.devices)
	h.node.usage.AddPluginAllocated(-h.handedOut)
	h.node.blocked -= h.blocked
	h.node.cpuFree += h.cpuMilli
	b.used.cpuMilli -= h.cpuMilli
	b.used.memory -= h.memory
	b.used.milli -= h.milli
	b.measure(h.node)
}

// devicesInUse returns how many devices of all nodes pods hold a part of.
func (b *clusterUsage) devicesInUse() int {
	n := 0
	for _, a := range b.nodes {
		n += a.usage.InUse()
	}
	return n
}

// nodesTouched returns on how many nodes a pod came to run.
func (b *clusterUsage) nodesTouched() int {
	n := 0
	for _, a := range b.nodes {
		if a.touched {
			n++
		}
	}
	return n
}

// fragmented returns the part of idle that is of no use to the workload.
func (b *clusterUsage) fragmented() float64 {
	return max(0, b.causes.Total())
}
