// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	milliResource  = corev1.ResourceName(names.GPUMilliResource)
	memoryResource = corev1.ResourceName(names.GPUMemoryResource)
)

// phase is where a allocation is on its way; see ledger.
type phase uint8

const (
	// assumed is from Reserve until the bound pod is seen.
	assumed phase = iota
	// bindingUnknown is assumed, and a Binding was sent that may have been written.
	bindingUnknown
	// leaked is bindingUnknown, and the scheduler has given the pod up: the NodeInfo
	// does not show it.
	leaked
	// bound is a pod whose record has been seen.
	bound
	// unrecorded is a bound pod that uses devices, and which is not known: it has
	// no record or one that cannot be believed.
	unrecorded
)

// podAllocation is what one pod holds. It does not change; the ledger replaces it.
type podAllocation struct {
	pod   *corev1.Pod
	node  string
	phase phase
	// allocation is what the pod was given; nil if it is unrecorded.
	allocation *device.Allocation
	// annotations are what the Binding is to write; nil once the pod is bound.
	annotations map[string]string
	// fence is what the pod's fence was when the devices were assumed; see ledger.fence.
	fence string
	// since is when the devices were assumed.
	since time.Time
}

// in returns the allocation in another phase.
func (h *podAllocation) in(p phase) *podAllocation {
	next := *h
	next.phase = p
	return &next
}

// podAllocations are a list that does not change.
type podAllocations []*podAllocation

// nodeInvalidation are what the ledger tells the views of one node.
type nodeInvalidation struct {
	// revision is raised when a view may not hold any more although the NodeInfo
	// is unchanged.
	revision atomic.Uint64
	// held is the number of pods that hold something here, without leaked.
	held   atomic.Int64
	leaked leakedList
	// gone is whether the node is: then the invalidation go with the last allocation. The ledger's
	// lock guards it.
	gone bool
}

// leakedList are the leaked allocations of one node; nearly always none.
type leakedList struct {
	list atomic.Pointer[podAllocations]
}

// Load returns the list as it is now.
func (o *leakedList) Load() *podAllocations { return o.list.Load() }

// has reports whether the pod is among them.
func (h *podAllocations) has(uid types.UID) bool {
	return h != nil && slices.ContainsFunc(*h, func(o *podAllocation) bool { return o.pod.UID == uid })
}

// all returns them.
func (h *podAllocations) all() podAllocations {
	if h == nil {
		return nil
	}
	return *h
}

// add and remove are called with the ledger's lock held.
func (o *leakedList) add(h *podAllocation) {
	list := append(slices.Clone(o.Load().all()), h)
	o.list.Store(&list)
}

func (o *leakedList) remove(uid types.UID) {
	if !o.Load().has(uid) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(o.Load().all()), func(h *podAllocation) bool { return h.pod.UID == uid })
	o.list.Store(&list)
}
