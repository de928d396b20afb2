// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/berth-scheduler/berth/pkg/apis/names"

// NodeKind says what a node does with its devices.
type NodeKind uint8

const (
	// NodeWithoutDevices has none that we know of.
	NodeWithoutDevices NodeKind = iota
	// NodeShared takes shares, and no device-plugin pods.
	NodeShared
	// NodeDevicePlugin takes device-plugin pods, and no shares.
	NodeDevicePlugin
	// NodeInvalid takes nothing new of either form: its labels contradict each
	// other or cannot be understood.
	NodeInvalid
	// NodeInOtherPool takes nothing new either: its devices are shared by the scheduler
	// instance of another pool.
	NodeInOtherPool
)

// Node is what a node's object says about its devices, parsed once per change of
// the object. It is read-only after ParseNode and safe to share.
type Node struct {
	// Kind is what the node does with its devices.
	Kind NodeKind
	// Invalid is set for NodeInvalid alone.
	Invalid InvalidError
	// Devices is the number of devices. On a NodeDevicePlugin it is the number
	// advertised, which may be above MaxDevices (time-slicing) or 0 where MIG devices
	// alone are advertised.
	Devices int
	// MemoryMiB is the memory of each device; 0 if unknown, which a shared node
	// never is.
	MemoryMiB int64
	// Model is the model of all devices, in lower case; empty if unknown.
	Model string
	// Cordoned are the devices that take nothing new.
	Cordoned Set
	// UUIDs are the devices' UUIDs by index, or nil if devices are handed out by
	// index.
	UUIDs []string
}

// PublishedByDRA returns the node as it is where a DRA driver offers its devices in
// ResourceSlices: a shared one is refused, because only one can hand them out.
func (n *Node) PublishedByDRA() *Node {
	if n.Kind != NodeShared {
		return n
	}
	return &Node{Kind: NodeInvalid, Model: n.Model, MemoryMiB: n.MemoryMiB, Invalid: InvalidError{
		Reason: PublishesDRADevices, Field: labelField(names.GPUSharingLabel), Value: "true",
		Detail: "conflicts with ResourceSlices in which a DRA driver offers the same devices: keep the driver off the node, or remove the label",
	}}
}

// Usage returns the usage of a node of which nobody uses anything. It is false if that
// is not counted: the node has no devices, is invalid, or has more of them than the
// model holds.
func (n *Node) Usage() (Usage, bool) {
	switch {
	case n.Kind == NodeShared:
		return NewUsage(n.Devices, n.MemoryMiB, n.Cordoned), true
	case n.Kind == NodeDevicePlugin && n.Devices <= MaxDevices:
		u := NewUsage(n.Devices, scoredMemory(n.MemoryMiB), 0)
		u.byPlugin = true
		return u, true
	default:
		return Usage{}, false
	}
}

// scoredMemory is the memory of a device as strategies count it. A node with a
// device plugin may have no label that tells it, and is scored by its compute
// alone: one unit of memory is what a whole device has then, and all that a pod
// without a wish for memory takes of it.
func scoredMemory(memoryMiB int64) int64 { return max(1, memoryMiB) }

// Admits checks what does not change with the pods on the node: kind, model,
// memory and number of devices. Whether there is room now is Usage.Fits. It
// allocates nothing.
func (n *Node) Admits(r *Request) Reason {
	switch {
	case r.Kind == RequestNone:
		return Fits
	case n.Kind == NodeInvalid:
		return InvalidNode
	case r.Kind == RequestShares && n.Kind != NodeShared:
		return n.whyNotShared()
	case r.Kind != RequestShares && n.isShared():
		return NodeIsShared
	case !r.Models.Match(n.Model):
		return WrongModel
	case r.MinMemoryMiB > n.MemoryMiB:
		return TooLittleMemory
	case r.Kind != RequestShares:
		// NodeResourcesFit counts them.
		return Fits
	}
	usable := n.Devices - n.Cordoned.Len()
	for i := range r.Containers {
		if _, ok := r.Containers[i].On(n.MemoryMiB); !ok {
			return LargerThanDevice
		}
		if r.Containers[i].Devices > usable {
			return TooFewDevices
		}
	}
	return Fits
}

// isShared reports whether the devices are shared, by whatever scheduler instance.
func (n *Node) isShared() bool { return n.Kind == NodeShared || n.Kind == NodeInOtherPool }

// whyNotShared returns why a node that is not of kind NodeShared takes no shares.
func (n *Node) whyNotShared() Reason {
	if n.Kind == NodeInOtherPool {
		return OtherPool
	}
	return NodeNotShared
}
