// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
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
	// leaked is bindingUnknown, and the scheduler has given the pod up: the NodeInfo
	// does not show it.
	unreservedInFlight
	// bound is a pod whose record has been seen.
	bound
	// unrecorded is a bound pod that uses devices, and which is not known: it has
	// no record or one that cannot be believed.
	unrecorded
)

// podAllocation is what one pod holds. It does not change; the cache replaces it.
type podAllocation struct {
	pod   *corev1.Pod
	node  string
	phase phase
	// allocation is what the pod was given; nil if it is unrecorded.
	allocation *device.Allocation
	// annotations are what the Binding is to write; nil once the pod is bound.
	annotations map[string]string
	// fence is what the pod's fence was when the devices were assumed; see allocationCache.fencePods.
	fenceToken string
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

func sameAllocation(a, b *device.Allocation) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}
