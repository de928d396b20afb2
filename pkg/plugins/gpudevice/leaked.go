// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// allocationList are the leaked allocations of one node; nearly always none.
type allocationList struct {
	list atomic.Pointer[podAllocations]
}

// Load returns the list as it is now.
func (o *allocationList) Load() *podAllocations { return o.list.Load() }

// add and remove are called with the cache's lock held.
func (o *allocationList) add(h *podAllocation) {
	list := append(slices.Clone(o.Load().all()), h)
	o.list.Store(&list)
}

func (o *allocationList) remove(uid types.UID) {
	if !o.Load().has(uid) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(o.Load().all()), func(h *podAllocation) bool { return h.pod.UID == uid })
	o.list.Store(&list)
}
