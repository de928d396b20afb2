// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// ErrUUIDsNotListed is a pod that was given devices by UUID, on a node that lists no
// UUIDs any more: which devices those are is unknown.
var ErrUUIDsNotListed = errors.New("was given devices by UUID, and the node has no annotation " + names.GPUUUIDsAnnotation + " any more")

// Allocation is what a pod was given, as its Binding wrote it: the devices of each
// container, by index or, where the node listed UUIDs, by UUID. What the pod holds of
// the node's present devices is said by On. An Allocation does not change and is safe
// to share.
type Allocation struct {
	containers []ContainerRequest
	recorded   Assignment
	// uuids are the devices of each container by UUID, in the order of the recorded
	// indexes; nil for a container that reads indexes.
	uuids [][]string

	// last is the answer of On for the node that was asked about last.
	last atomic.Pointer[podUsageOnNode]
}

// podUsageOnNode is what is held on nodes of one description.
type podUsageOnNode struct {
	memoryMiB int64
	uuids     []string
	used      PodUsage
	asked     PodUsage
	missing   []string
	err       error
}

// NewAllocation returns what a pod is given by an assignment on the node, as
// Assignment.Annotations writes it.
func NewAllocation(r *Request, a *Assignment, n *Node) *Allocation {
	allocation := &Allocation{containers: r.Containers, recorded: *a}
	if n.UUIDs == nil {
		return allocation
	}
	allocation.uuids = make([][]string, len(r.Containers))
	for i := range r.Containers {
		for d := range a.Devices[i].All() {
			allocation.uuids[i] = append(allocation.uuids[i], n.UUIDs[d])
		}
	}
	return allocation
}

// ParseAllocation returns what a bound pod was given, from its annotations. Nothing is
// believed that does not agree with what the pod asks for; see ParseAssignment, also
// for the errors. The constraints of the pod and the least amount of memory are not
// looked at: they are about choosing a node, which is over.
func ParseAllocation(pod *corev1.Pod) (*Allocation, error) {
	p := requestParser{keys: &NodeKeys{}, leastMemory: 1}
	request, err := p.pod(pod)
	if err != nil {
		return nil, err
	}
	assignment, err := ParseAssignment(pod.Annotations, request)
	if err != nil {
		return nil, err
	}
	allocation := &Allocation{containers: request.Containers, recorded: assignment}
	for i := range request.Containers {
		value := pod.Annotations[names.GPUDevicesAnnotationPrefix+request.Containers[i].Container]
		if value == formatIndexes(assignment.Devices[i]) {
			continue
		}
		if allocation.uuids == nil {
			allocation.uuids = make([][]string, len(request.Containers))
		}
		allocation.uuids[i] = strings.Split(value, ",")
	}
	return allocation, nil
}

// ByUUID reports whether any of the devices was given by UUID.
func (a *Allocation) ByUUID() bool { return a.uuids != nil }

// Equal reports whether two allocations of one pod say the same.
func (a *Allocation) Equal(b *Allocation) bool {
	return a.recorded == b.recorded && slices.EqualFunc(a.uuids, b.uuids, slices.Equal)
}

// On returns what the pod holds of each device of the node as it is now:
//
//   - A device that was given by UUID is where the node lists that UUID. If it does
//     not list it any more, the pod holds nothing of any device that is listed; if the
//     node lists no UUIDs at all, the error is ErrUUIDsNotListed. A device that was
//     given by index is the one with that index, because that is what the container
//     reads whenever it starts.
//   - Of each device it holds what it asked for, and beside it what that comes to in
//     proportion to the memory that the devices have now (ContainerRequest.On): a label that a new
//     driver changes must not make four quarters more than a whole. As long as the
//     memory is unknown, that is what was recorded.
//
// On allocates nothing when it is asked about the same description again.
func (a *Allocation) On(n *Node) (*PodUsage, error) {
	h := a.on(n)
	return &h.used, h.err
}

// RequestedOn is On without what was defaulted: an amount that a container did not ask for
// counts as nothing.
func (a *Allocation) RequestedOn(n *Node) *PodUsage { return &a.on(n).asked }

// Missing returns the UUIDs that the pod was given and that the node does not list.
func (a *Allocation) Missing(n *Node) []string {
	if len(n.UUIDs) == 0 {
		return nil
	}
	return a.on(n).missing
}

func (a *Allocation) on(n *Node) *podUsageOnNode {
	if h := a.last.Load(); h != nil && h.memoryMiB == n.MemoryMiB && (a.uuids == nil || slices.Equal(h.uuids, n.UUIDs)) {
		return h
	}
	h := &podUsageOnNode{memoryMiB: n.MemoryMiB, uuids: n.UUIDs}
	now := a.recorded
	for i := range a.containers {
		now.Shares[i] = a.share(i, n.MemoryMiB)
		if a.uuids == nil || a.uuids[i] == nil {
			continue
		}
		if n.UUIDs == nil {
			h.err = ErrUUIDsNotListed
			continue
		}
		now.Devices[i] = 0
		for _, uuid := range a.uuids[i] {
			if at := slices.Index(n.UUIDs, uuid); at >= 0 {
				now.Devices[i] = now.Devices[i].With(at)
			} else {
				h.missing = append(h.missing, uuid)
			}
		}
	}
	h.used = now.PodUsage(a.containers)
	for i := range a.containers {
		now.Shares[i] = Share{Milli: a.containers[i].Milli, MemoryMiB: a.containers[i].MemoryMiB}
	}
	h.asked = now.PodUsage(a.containers)
	a.last.Store(h)
	return h
}

// share is what container i has of each of its devices, which have so much
// memory.
func (a *Allocation) share(i int, memoryMiB int64) Share {
	share, container := a.recorded.Shares[i], &a.containers[i]
	if memoryMiB == 0 {
		return share
	}
	if container.MemoryMiB == 0 {
		share.MemoryMiB = derivedMemory(container.Milli, memoryMiB)
	}
	if container.Milli == 0 {
		share.Milli = derivedMilli(min(container.MemoryMiB, memoryMiB), memoryMiB)
	}
	return share
}

// Conflicts returns the devices of the node of which more is used than there is, by
// several of the pods that were given the allocations. certain are those of which
// already the compute that the pods ask for is too much, which does not depend on what the
// node says of its memory: two schedulers have bound at once. Of the others it may be
// that the node says less of its devices' memory than it did.
func Conflicts(n *Node, allocations []*Allocation) (conflicts, certain Set) {
	// Memory that the node does not tell is not counted.
	used := NewUsage(MaxDevices, cmp.Or(n.MemoryMiB, math.MaxInt64), 0)
	asked := NewUsage(MaxDevices, math.MaxInt64, 0)
	var some, several Set
	for _, allocation := range allocations {
		on, _ := allocation.On(n)
		used.Add(on)
		asked.Add(allocation.RequestedOn(n))
		several |= some & on.Devices()
		some |= on.Devices()
	}
	conflicts = used.Overcommitted() & several
	for d := range conflicts.All() {
		if asked.Free(d).Milli < 0 {
			certain = certain.With(d)
		}
	}
	return conflicts, certain
}
