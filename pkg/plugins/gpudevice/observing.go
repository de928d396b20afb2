// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// observation is what observe found.
type observation struct {
	// held is the pod's; nil if the pod holds nothing.
	held *podAllocation
	// first is whether the pod was not known to be bound before.
	first bool
	// problem is why the pod is unrecorded, nil if it is not.
	problem error
	// overcommitted are the devices of the node that the pod shares with others and of
	// which more is held than they have, and conflicting the pods on them.
	overcommitted device.Set
	conflicting   []*corev1.Pod
	// certain is whether two schedulers must have bound at once; otherwise it may be
	// that the node says less of its devices' memory than it did.
	certain bool
	// released is what was assumed for the pod and is not what it has now; nil as a rule.
	released *podAllocation
}

// observe takes note of a version of a pod that the informer delivered. The first
// version that is bound decides what the pod holds.
func (c *allocationCache) observe(pod *corev1.Pod) observation {
	if pod.Spec.NodeName == "" || !device.HasShareRequest(pod) {
		return observation{}
	}
	if podphase.IsTerminated(pod) {
		released := c.removePod(pod.UID)
		if released == nil || !released.neverBound() {
			return observation{}
		}
		return observation{released: released}
	}
	if h := c.get(pod.UID); h != nil && (h.phase == bound || h.phase == unrecorded) {
		return observation{held: h}
	}
	h := &podAllocation{pod: pod, node: pod.Spec.NodeName, phase: bound}
	allocation, err := device.ParseAllocation(pod)
	if err != nil {
		h.phase = unrecorded
	} else {
		h.allocation = allocation
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s := observation{held: h, first: true, problem: err}
	if old := c.get(pod.UID); old != nil && (old.node != h.node || !sameAllocation(old.allocation, h.allocation)) {
		s.released = old
	}
	c.putLocked(h)
	if err == nil {
		s.overcommitted, s.conflicting, s.certain = c.conflictsLocked(h)
	}
	return s
}

// conflictsLocked returns the devices of h of which more is used than there is, by
// several bound pods, all the pods on them, and whether already the compute that they
// ask for is too much: that does not depend on what the node says of its memory. Pods that
// the informer's store has no longer so do not count: when all pods are listed anew, the
// handlers are told of it pod by pod.
func (c *allocationCache) conflictsLocked(h *podAllocation) (overcommitted device.Set, conflicting []*corev1.Pod, certain bool) {
	node := c.parsedNode(h.node)
	users := map[*podAllocation]device.Set{}
	var allocations []*device.Allocation
	for _, other := range c.byNode[h.node] {
		if other.phase == bound && c.isBoundInInformer(other) {
			on, _ := other.allocation.On(node)
			users[other] = on.Devices()
			allocations = append(allocations, other.allocation)
		}
	}
	conflicts, certainly := device.Conflicts(node, allocations)
	overcommitted = conflicts & users[h]
	for other, devices := range users {
		if devices&overcommitted != 0 {
			conflicting = append(conflicting, other.pod)
		}
	}
	return overcommitted, conflicting, overcommitted&certainly != 0
}

// isBoundInInformer reports whether the informer's store has the bound pod of h, bound by the
// same Binding.
func (c *allocationCache) isBoundInInformer(h *podAllocation) bool {
	pod := c.podFromInformer(h.pod)
	return pod != nil && !boundAnew(h.pod, pod)
}

// parsedNode returns what the node says of its devices, to the first of the plugins that
// finds some: profiles may read different labels. Of a node that is not known it returns
// nothing.
func (c *allocationCache) parsedNode(node string) *device.Node {
	if len(c.plugins) == 0 {
		return &device.Node{}
	}
	object, err := c.nodes.Get(node)
	if err != nil {
		return &device.Node{} // the lister's only error is that the node is not there
	}
	return c.parseLocked(object)
}

// parseLocked is parsedNode for a version of a node.
func (c *allocationCache) parseLocked(object *corev1.Node) *device.Node {
	var first *device.Node
	for _, pl := range c.plugins {
		node := device.ParseNode(object, pl.nodeKeys)
		if node.Kind == device.NodeShared {
			return node
		}
		if first == nil {
			first = node
		}
	}
	return first
}
