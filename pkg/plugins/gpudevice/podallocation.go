// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
)

// phase is where an allocation is on its way; see allocationCache.
type phase uint8

const (
	// assumed is from Reserve until the bound pod is seen.
	assumed phase = iota
	// bindingUnknown is assumed, and a Binding was sent that may have been written.
	bindingUnknown
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

func sameAllocation(a, b *device.Allocation) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}
