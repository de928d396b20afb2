// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Reason says why a node cannot take a pod. The set is closed, so that it can be a
// metric label.
type Reason uint8

const (
	// Fits is a node that can.
	Fits Reason = iota
	// NodeNotShared is a pod with shares on a node that is not shared.
	NodeNotShared
	// NodeIsShared is a shared node for a pod that requests devices of a device plugin or a
	// DRA driver.
	NodeIsShared
	// InvalidNode is a node of kind NodeInvalid; Node.Invalid says why.
	InvalidNode
	// WrongModel is a node whose devices' model the pod does not accept.
	WrongModel
	// TooLittleMemory is a node whose devices have less memory in total than the
	// pod's gpu-min-memory.
	TooLittleMemory
	// LargerThanDevice is a container that asks for more memory than one device of the
	// node has.
	LargerThanDevice
	// TooFewDevices is a container that asks for more devices than the node has
	// uncordoned.
	TooFewDevices
	// Forbidden is a node with devices, which are kept for pods that ask for them.
	Forbidden
	// OtherPool is a shared node of another pool than the scheduler's.
	OtherPool
	// OtherInstance is a shared node on which another scheduler instance allocates shares too,
	// although the node is of this one's pool.
	OtherInstance
	// KeptForUnfenced is a node with devices that would do, if a pod that a former scheduler
	// process may still bind did not count as being there.
	KeptForUnfenced
	// NoShare is a node whose devices have too little compute left.
	NoShare
	// NoMemory is a node whose devices have the compute and too little memory left.
	NoMemory
	// Unrecorded is a shared node with a pod of which it is not known what it uses.
	Unrecorded
	// UsedOutsideShares is a shared node with a pod that a device plugin or a DRA driver
	// allocated devices to.
	UsedOutsideShares
	// SharesHeld is a node, not shared any more, on which shares are in use, for a pod
	// that requests devices of a device plugin or a DRA driver.
	SharesHeld
	// Reasons is how many there are.
	Reasons
)

// reasonNames are metric labels, which are API: NotShared, Shared, Refused, Unassigned and
// OtherUse are older than the names of their constants.
var reasonNames = [Reasons]string{
	"Fits", "NotShared", "Shared", "Refused", "WrongModel", "TooLittleMemory", "LargerThanDevice", "TooFewDevices", "Forbidden", "OtherPool", "OtherInstance",
	"KeptForUnfenced", "NoShare", "NoMemory", "Unassigned", "OtherUse", "SharesHeld",
}

// String returns the reason as a metric label.
func (r Reason) String() string {
	if r >= Reasons {
		return "Unknown"
	}
	return reasonNames[r]
}

// Resolvable reports whether evicting pods could make the node fit.
func (r Reason) Resolvable() bool { return r >= NoShare }
