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

// phase is where a holder is on its way; see ledger.
type phase uint8

const (
	// reserved is from Reserve until the bound pod is seen.
	reserved phase = iota
	// inDoubt is reserved, and a Binding was sent that may have been written.
	inDoubt
	// orphaned is inDoubt, and the scheduler has given the pod up: the NodeInfo
	// does not show it.
	orphaned
	// bound is a pod whose record has been seen.
	bound
	// unassigned is a bound pod that uses devices, and which is not known: it has
	// no record or one that cannot be believed.
	unassigned
)

// holder is what one pod holds. It does not change; the ledger replaces it.
type holder struct {
	pod   *corev1.Pod
	node  string
	phase phase
	// allocation is what the pod was given; nil if it is unassigned.
	allocation *device.Allocation
	// annotations are what the Binding is to write; nil once the pod is bound.
	annotations map[string]string
	// fence is what the pod's fence was when the devices were reserved; see ledger.fence.
	fence string
	// since is when the devices were reserved.
	since time.Time
}

// in returns the holder in another phase.
func (h *holder) in(p phase) *holder {
	next := *h
	next.phase = p
	return &next
}

// holders are a list that does not change.
type holders []*holder

// nodeMarks are what the ledger tells the views of one node.
type nodeMarks struct {
	// revision is raised when a view may not hold any more although the NodeInfo
	// is unchanged.
	revision atomic.Uint64
	// held is the number of pods that hold something here, without orphans.
	held    atomic.Int64
	orphans orphanList
	// gone is whether the node is: then the marks go with the last holder. The ledger's
	// lock guards it.
	gone bool
}

// orphanList are the orphaned holders of one node; nearly always none.
type orphanList struct {
	list atomic.Pointer[holders]
}

// Load returns the list as it is now.
func (o *orphanList) Load() *holders { return o.list.Load() }

// has reports whether the pod is among them.
func (h *holders) has(uid types.UID) bool {
	return h != nil && slices.ContainsFunc(*h, func(o *holder) bool { return o.pod.UID == uid })
}

// all returns them.
func (h *holders) all() holders {
	if h == nil {
		return nil
	}
	return *h
}

// add and remove are called with the ledger's lock held.
func (o *orphanList) add(h *holder) {
	list := append(slices.Clone(o.Load().all()), h)
	o.list.Store(&list)
}

func (o *orphanList) remove(uid types.UID) {
	if !o.Load().has(uid) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(o.Load().all()), func(h *holder) bool { return h.pod.UID == uid })
	o.list.Store(&list)
}
