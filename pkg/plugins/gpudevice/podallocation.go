// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/device"
)

// phase is where an allocation is on its way; see allocationCache.
type phase uint8

const (
	// assumed is from Reserve until the bound pod is seen.
	assumed phase = iota
	// bindingUnknown is assumed, and a Binding was sent that may have been written.
	bindingUnknown
	// unreservedInFlight is bindingUnknown after Unreserve: the NodeInfo does not show the
	// pod, and the devices stay allocated until its Binding is seen or cannot be written.
	unreservedInFlight
	// bound is a pod whose record has been seen.
	bound
	// unrecorded is a bound pod that uses devices, and which is not known: it has no
	// record or an invalid one. Older names of it are API: the metric pods_without_allocation_total,
	// the reason Unassigned and the event GPUDevicesUnknown.
	unrecorded
)

// podAllocation is what one pod holds. It does not change; the cache replaces it.
type podAllocation struct {
	pod   *corev1.Pod
	node  string
	phase phase
	// allocation is what the pod was given; nil if it is unrecorded.
	allocation *device.Allocation
	// otherInstance is whether another scheduler instance gave the pod its share while this
	// one was giving shares of the node's pool; see noteOtherInstance.
	otherInstance bool
	// annotations are what the Binding is to write; nil once the pod is bound.
	annotations map[string]string
	// since is when the devices were assumed.
	since time.Time
}

// in returns the allocation in another phase.
func (h *podAllocation) in(p phase) *podAllocation {
	next := *h
	next.phase = p
	return &next
}

// neverBound reports whether no version of the pod was seen bound.
func (h *podAllocation) neverBound() bool { return h.phase != bound && h.phase != unrecorded }

// podAllocations are a list that does not change.
type podAllocations []*podAllocation

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

// allocationList is a list of allocations that is read without a lock.
type allocationList struct {
	list atomic.Pointer[podAllocations]
}

// Load returns the list as it is now.
func (l *allocationList) Load() *podAllocations { return l.list.Load() }

// add and remove are called with the cache's lock held.
func (l *allocationList) add(h *podAllocation) {
	list := append(slices.Clone(l.Load().all()), h)
	l.list.Store(&list)
}

func (l *allocationList) remove(uid types.UID) {
	if !l.Load().has(uid) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(l.Load().all()), func(h *podAllocation) bool { return h.pod.UID == uid })
	l.list.Store(&list)
}

func sameAllocation(a, b *device.Allocation) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}
