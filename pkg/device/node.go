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
	// NodeRefused takes nothing new of either form: its labels contradict each
	// other or cannot be understood.
	NodeRefused
)

// Node is what a node's object says about its devices, parsed once per change of
// the object. It is read-only after ParseNode and safe to share.
type Node struct {
	// Kind is what the node does with its devices.
	Kind NodeKind
	// Refusal is set for NodeRefused alone.
	Refusal Refusal
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

// OfferedByDRA returns the node as it is where a DRA driver offers its devices in
// ResourceSlices: a shared one is refused, because only one can hand them out.
func (n *Node) OfferedByDRA() *Node {
	if n.Kind != NodeShared {
		return n
	}
	return &Node{Kind: NodeRefused, Model: n.Model, MemoryMiB: n.MemoryMiB, Refusal: Refusal{
		Reason: OffersDRA, Field: labelField(names.GPUSharingLabel), Value: "true",
		Detail: "stands beside ResourceSlices in which a DRA driver offers the same devices: keep the driver off the node, or remove the label",
	}}
}

// State returns the state of a shared node on which nobody holds anything.
func (n *Node) State() State {
	if n.Kind != NodeShared {
		return State{}
	}
	return NewState(n.Devices, n.MemoryMiB, n.Cordoned)
}

// PluginState returns a state for scoring a node whose devices a device plugin
// hands out, used of them being taken. Which ones is unknown; whole devices are
// alike, so the first are assumed. It is false for a node with more devices than
// the model holds.
func (n *Node) PluginState(used int64) (State, bool) {
	if n.Kind != NodeDevicePlugin || n.Devices > MaxDevices {
		return State{}, false
	}
	s := NewState(n.Devices, scoredMemory(n.MemoryMiB), 0)
	for i := range min(int64(n.Devices), used) {
		s.Take(int(i), s.capacity)
	}
	return s, true
}

// scoredMemory is the memory of a device as strategies count it. A node with a
// device plugin may have no label that tells it, and is scored by its compute
// alone: one unit of memory is what a whole device has then, and all that a pod
// without a wish for memory takes of it.
func scoredMemory(memoryMiB int64) int64 { return max(1, memoryMiB) }

// Rejection says why a node cannot take a pod. The set is closed, so that it can
// be a metric label.
type Rejection uint8

const (
	// Fits is no rejection.
	Fits Rejection = iota
	// NotShared is a pod with shares on a node that is not shared.
	NotShared
	// Shared is a device-plugin pod on a shared node.
	Shared
	// Refused is a node of kind NodeRefused; Node.Refusal says why.
	Refused
	// WrongModel is a node whose devices' model the pod does not accept.
	WrongModel
	// TooLittleMemory is a node whose devices have less memory in total than the
	// pod's gpu-min-memory.
	TooLittleMemory
	// LargerThanDevice is an ask for more memory than one device of the node has.
	LargerThanDevice
	// TooFewDevices is an ask for more devices than the node has uncordoned.
	TooFewDevices
	// NoRoom is a node whose devices are in use. It alone can be cured by
	// evicting pods.
	NoRoom
)

// String returns the rejection as a metric label.
func (r Rejection) String() string {
	switch r {
	case Fits:
		return "Fits"
	case NotShared:
		return "NotShared"
	case Shared:
		return "Shared"
	case Refused:
		return "Refused"
	case WrongModel:
		return "WrongModel"
	case TooLittleMemory:
		return "TooLittleMemory"
	case LargerThanDevice:
		return "LargerThanDevice"
	case TooFewDevices:
		return "TooFewDevices"
	case NoRoom:
		return "NoRoom"
	default:
		return "Unknown"
	}
}

// Resolvable reports whether evicting pods could make the node fit.
func (r Rejection) Resolvable() bool {
	return r == NoRoom
}

// Admits checks what does not change with the pods on the node: kind, model,
// memory and number of devices. Whether there is room now is State.Fits. It
// allocates nothing.
func (n *Node) Admits(r *Request) Rejection {
	switch {
	case r.Form == FormNone:
		return Fits
	case n.Kind == NodeRefused:
		return Refused
	case r.Form == FormShares && n.Kind != NodeShared:
		return NotShared
	case r.Form != FormShares && n.Kind == NodeShared:
		return Shared
	case !r.Models.Match(n.Model):
		return WrongModel
	case r.MinMemoryMiB > n.MemoryMiB:
		return TooLittleMemory
	case r.Form != FormShares:
		// NodeResourcesFit counts them.
		return Fits
	}
	usable := n.Devices - n.Cordoned.Len()
	for i := range r.Asks {
		if _, ok := r.Asks[i].On(n.MemoryMiB); !ok {
			return LargerThanDevice
		}
		if r.Asks[i].Devices > usable {
			return TooFewDevices
		}
	}
	return Fits
}
