// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// FormatVersion is that of a [Report] as JSON or YAML. Keys may be added; the version
// changes when one goes or changes its meaning.
const FormatVersion = 1

// Report is who holds which device. All lists are sorted by name.
type Report struct {
	// FormatVersion is [FormatVersion].
	FormatVersion int `json:"formatVersion"`
	// OnlyNamespace is the namespace whose pods are the only ones that could be seen;
	// what is free is at most what is reported then. Empty if all were.
	OnlyNamespace string `json:"onlyNamespace,omitempty"`
	// Nodes are the nodes with devices.
	Nodes []Node `json:"nodes"`
	// Pods are the pods that use devices.
	Pods []Pod `json:"pods"`
	// Waiting are the pods that ask for devices and have no node.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Claimed are the devices that ResourceClaims have, of any DRA driver.
	Claimed []Claimed `json:"claimed,omitempty"`
	// Namespaces are those of Pods.
	Namespaces []Namespace `json:"namespaces"`
	// Models are those of Nodes.
	Models []Model `json:"models"`
	// Notes are what else the reader should know, a line each, such as what could not be
	// seen.
	Notes []string `json:"notes,omitempty"`
}

// NodeKind says what a node does with its devices.
type NodeKind string

// The kinds of nodes.
const (
	// Shared takes shares of its devices.
	Shared NodeKind = "Shared"
	// DevicePlugin has its devices handed out by a device plugin, whole.
	DevicePlugin NodeKind = "DevicePlugin"
	// Invalid takes nothing new: what it says of its devices contradicts itself.
	Invalid NodeKind = "Invalid"
	// OtherPool has its devices shared by the scheduler of another pool than is asked about.
	OtherPool NodeKind = "OtherPool"
	// NotShared has no devices that Berth knows of, and pods that hold shares of some.
	NotShared NodeKind = "NotShared"
	// Driver has its devices published and handed out by a DRA driver.
	Driver NodeKind = "Driver"
	// Unknown could not be seen; what pods hold there is as recorded.
	Unknown NodeKind = "Unknown"
)

// Node is a node with devices.
type Node struct {
	// Name is the node's name.
	Name string `json:"name"`
	// Kind says what it does with its devices.
	Kind NodeKind `json:"kind"`
	// Pool is the GPU pool of the node (label berth.dev/gpu-pool).
	Pool string `json:"pool,omitempty"`
	// Model is that of its devices, in lower case; empty if unknown.
	Model string `json:"model,omitempty"`
	// DeviceMemoryMiB is the memory of each device; 0 if unknown.
	DeviceMemoryMiB int64 `json:"deviceMemoryMiB,omitempty"`
	// Unschedulable is whether the node is cordoned (spec.unschedulable).
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Problem says why the node is Invalid: the field, and the way out.
	Problem string `json:"problem,omitempty"`
	// UnknownUse are the pods that use devices, and it is not known which. A shared node
	// takes no new share because of them.
	UnknownUse []Problem `json:"unknownUse,omitempty"`
	// Devices are those of a shared node, and those that pods hold on one that is not
	// known.
	Devices []Device `json:"devices,omitempty"`
	// HandedOut is what a device plugin does; nil on a node without.
	HandedOut *HandedOut `json:"handedOut,omitempty"`
	// Isolation says what keeps pods within their parts: of shares, and of each DRA driver
	// that publishes devices for the node.
	Isolation []Isolation `json:"isolation,omitempty"`
}

// Problem is what is wrong with a pod's use of devices.
type Problem struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// Message says what is wrong.
	Message string `json:"message"`
}

// HandedOut is what a device plugin does with the devices of a node.
type HandedOut struct {
	// Devices is how many it advertises.
	Devices int64 `json:"devices"`
	// Held is how many pods have.
	Held int64 `json:"held"`
}

// Share is an amount of a device.
type Share struct {
	// Milli is in thousandths of the device.
	Milli int64 `json:"milli"`
	// MemoryMiB is in MiB of its memory.
	MemoryMiB int64 `json:"memoryMiB"`
}

// Device is one device.
type Device struct {
	// Index is its index on its node.
	Index int `json:"index"`
	// UUID is its UUID, empty on a node that lists none.
	UUID string `json:"uuid,omitempty"`
	// Free is what is left of it, which is negative where more is held than there is. It
	// is zero on an unknown node.
	Free Share `json:"free"`
	// Cordoned is whether it takes nothing new.
	Cordoned bool `json:"cordoned,omitempty"`
	// Conflict says why more is held of it than it has; empty if that is not so.
	Conflict Conflict `json:"conflict,omitempty"`
	// HeldBy are the pods that hold parts of it.
	HeldBy []Holding `json:"heldBy,omitempty"`
}

// Conflict is why more is held of a device than it has.
type Conflict string

// The conflicts.
const (
	// GivenTwice is a device that was given to pods that together ask for more than it
	// has: two schedulers bound pods at the same time.
	GivenTwice Conflict = "GivenTwice"
	// MemoryShrank is a device of whose memory pods hold more than its node tells: the
	// label has become less since they were bound, or two schedulers bound pods at the same time.
	MemoryShrank Conflict = "MemoryShrank"
	// NotThere is a device that is held and that the node does not have.
	NotThere Conflict = "NotThere"
)

// Holding is what a pod holds of a device.
type Holding struct {
	// Pod is namespace/name.
	Pod   string `json:"pod"`
	Share `json:",inline"`
}

// How says how a pod came to its devices.
type How string

// How pods come to devices.
const (
	// ByShares is by limits of berth.dev/gpu-milli or berth.dev/gpu-memory.
	ByShares How = "Shares"
	// ByDevicePlugin is by limits of a device plugin's resources.
	ByDevicePlugin How = "DevicePlugin"
	// ByClaim is by a ResourceClaim, or what may be one, for devices.
	ByClaim How = "ResourceClaim"
)

// Pod is a pod that uses devices.
type Pod struct {
	// Namespace and Name are the pod's.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Node is the node that it runs on.
	Node string `json:"node"`
	// Model is that of the node's devices.
	Model string `json:"model,omitempty"`
	// SchedulerName is the pod's.
	SchedulerName string `json:"schedulerName"`
	// How says how it came to its devices.
	How How `json:"how"`
	// Devices are the indexes of those that it holds, if that is known.
	Devices []int `json:"devices,omitempty"`
	// Held is what it holds of all of them together.
	Held Share `json:"held"`
	// WholeDevices is how many a device plugin gave it.
	WholeDevices int64 `json:"wholeDevices,omitempty"`
	// Claimed are the devices that it has by ResourceClaims.
	Claimed []cluster.ClaimDevice `json:"claimed,omitempty"`
	// Problem says why it is not known which devices it uses, or that some of them are
	// not there any more; empty if nothing is wrong.
	Problem string `json:"problem,omitempty"`
}

// Namespace is what the pods of a namespace hold.
type Namespace struct {
	// Name is the namespace's name.
	Name string `json:"name"`
	// Pods is how many of its pods use devices.
	Pods int `json:"pods"`
	// Held is what they hold in shares.
	Held Share `json:"held"`
	// WholeDevices is how many they have from device plugins.
	WholeDevices int64 `json:"wholeDevices,omitempty"`
	// Problems is how many of its pods have one.
	Problems int `json:"problems,omitempty"`
}

// Model is the devices of one model. Amounts are in thousandths of devices on shared nodes.
type Model struct {
	// Name is the model, in lower case; empty for nodes that do not tell it.
	Name string `json:"name"`
	// Nodes is how many nodes have such devices, of any kind.
	Nodes int `json:"nodes"`
	// Devices is how many devices shared nodes have, cordoned ones included.
	Devices int `json:"devices"`
	// CordonedDevices is how many of them take nothing new.
	CordonedDevices int `json:"cordonedDevices,omitempty"`
	// CapacityMilli is that of the devices that are not cordoned.
	CapacityMilli int64 `json:"capacityMilli"`
	// AllocatedMilli is what pods hold of those.
	AllocatedMilli int64 `json:"allocatedMilli"`
	// CordonedAllocatedMilli is what pods hold of cordoned devices.
	CordonedAllocatedMilli int64 `json:"cordonedAllocatedMilli,omitempty"`
	// FreeMilli is what is left of the devices that are not cordoned.
	FreeMilli int64 `json:"freeMilli"`
	// BlockedMilli is the part of it on nodes that take no share, because a pod there
	// uses devices of which it is not known which.
	BlockedMilli int64 `json:"blockedMilli,omitempty"`
	// FreeDevices is how many devices are free as a whole.
	FreeDevices int `json:"freeDevices"`
	// FragmentedMilli is the part of FreeMilli that is of no use to the cluster's pods;
	// nil if none of them asks for a device.
	FragmentedMilli *float64 `json:"fragmentedMilli,omitempty"`
	// Conflicts is how many devices have one.
	Conflicts int `json:"conflicts,omitempty"`
	// HandedOut is what device plugins do on the nodes of the model; nil if there are
	// none.
	HandedOut *HandedOut `json:"handedOut,omitempty"`
}

// Select returns the report of the nodes with the given names, all if there are none,
// and of what pods of the namespace hold, of all if it is empty. What is counted by model
// is left as it is. missing are the names of nodes that the report does not have.
func (r *Report) Select(nodes []string, namespace string) (selected *Report, missing []string) {
	whole := *r
	selected = &whole
	for _, name := range nodes {
		if !slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Name == name }) {
			missing = append(missing, name)
		}
	}
	ofNode := func(name string) bool { return len(nodes) == 0 || slices.Contains(nodes, name) }
	selected.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(p Pod) bool {
		return !ofNode(p.Node) || namespace != "" && p.Namespace != namespace
	})
	selected.Waiting = slices.DeleteFunc(slices.Clone(r.Waiting), func(w Waiting) bool {
		return !ofNode(w.NominatedNode) || namespace != "" && w.Namespace != namespace
	})
	selected.Claimed = slices.DeleteFunc(slices.Clone(r.Claimed), func(c Claimed) bool {
		return !ofNode(c.Node) || namespace != "" && c.Namespace != namespace
	})
	if len(nodes) > 0 || namespace != "" {
		selected.Namespaces = namespacesOf(selected.Pods)
	}
	selected.Nodes = []Node{}
	for i := range r.Nodes {
		if node := r.Nodes[i]; ofNode(node.Name) && node.keep(selected.Pods, namespace) {
			selected.Nodes = append(selected.Nodes, node)
		}
	}
	return selected, missing
}

// keep leaves the devices that pods of the namespace hold, and reports whether any pod of
// it uses devices of the node. pods are those of the namespace.
func (n *Node) keep(pods []Pod, namespace string) bool {
	if namespace == "" {
		return true
	}
	held := map[int]bool{}
	some := false
	for i := range pods {
		if pods[i].Node != n.Name {
			continue
		}
		some = true
		for _, index := range pods[i].Devices {
			held[index] = true
		}
	}
	n.Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d Device) bool { return !held[d.Index] })
	return some
}

// namespacesOf adds up what pods hold, which are sorted.
func namespacesOf(pods []Pod) []Namespace {
	namespaces := []Namespace{}
	for i := range pods {
		pod := &pods[i]
		if len(namespaces) == 0 || namespaces[len(namespaces)-1].Name != pod.Namespace {
			namespaces = append(namespaces, Namespace{Name: pod.Namespace})
		}
		n := &namespaces[len(namespaces)-1]
		n.Pods++
		n.Held.Milli += pod.Held.Milli
		n.Held.MemoryMiB += pod.Held.MemoryMiB
		n.WholeDevices += pod.WholeDevices
		if pod.Problem != "" {
			n.Problems++
		}
	}
	return namespaces
}

func comparePods(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Describe says what a conflict is, and what to do about it.
func (c Conflict) Describe() (message, wayOut string) {
	switch c {
	case GivenTwice:
		return "the pods on this device request more than it has, because two schedulers bound pods at the same time", "delete one of the pods"
	case MemoryShrank:
		return "more of its memory is allocated than the node's label reports: the label was reduced after the pods were bound, or two schedulers bound pods at the same time",
			"wait until enough of it is free, or delete one of the pods; if the device has not changed, do nothing"
	case NotThere:
		return "the node does not have this device any more", "delete the pods"
	}
	return string(c), ""
}
