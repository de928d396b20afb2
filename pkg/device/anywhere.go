// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// TakeAnywhere counts as used what pods may hold of which it is not known where they are, if
// they are on this node at all: of each device that has room for a container of such a pod, the
// whole request of the pod, and never more than is free. What room there is
// for one pod does not depend on the others: all of them may be on the same device.
//
// A container has room if the device has the compute that it asks for. Memory is left out, and
// compute that is defaulted from it: how much memory a device has is a
// label, which may have said otherwise when the pod was placed.
func (u *Usage) TakeAnywhere(requests []*Request) {
	if len(requests) == 0 {
		return
	}
	for i := range u.devices {
		free := u.free[i]
		if free.Milli <= 0 && free.MemoryMiB <= 0 {
			continue
		}
		var taken Share
		for _, r := range requests {
			taken = taken.plus(r.mostOfOne(free, u.capacity.MemoryMiB))
			if taken.covers(free) {
				break
			}
		}
		u.free[i] = free.minus(Share{Milli: min(taken.Milli, max(free.Milli, 0)), MemoryMiB: min(taken.MemoryMiB, max(free.MemoryMiB, 0))})
	}
}

// mostOfOne returns the most that the pod may hold of one device that has so much free,
// at any time of its life or more.
func (r *Request) mostOfOne(free Share, memoryMiB int64) Share {
	var most Share
	fits := false
	for i := range r.Containers {
		c := &r.Containers[i]
		share, ok := c.On(memoryMiB)
		if !ok {
			share = Share{Milli: MilliPerDevice, MemoryMiB: memoryMiB}
		}
		fits = fits || c.Milli <= free.Milli
		most = most.plus(share)
	}
	if !fits {
		return Share{}
	}
	return most
}
