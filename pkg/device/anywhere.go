// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// EqualRequests are those of several pods that ask for the same.
type EqualRequests struct {
	*Request

	Pods int64
}

// TakeAnywhere counts as used what pods may hold whose node and devices are not known. They may
// be on this node, and all on one device. So each takes its whole request of every device
// that has room for one of its containers, and never more than is free. The cost grows with the
// number of different requests.
//
// A container has room if the device has the compute that it asks for. Memory is left out, and
// compute that is defaulted from it: how much memory a device has is a
// label, which may have said otherwise when the pod was placed.
func (u *Usage) TakeAnywhere(requests []EqualRequests) {
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
			most := r.mostOfOne(free, u.capacity.MemoryMiB)
			taken = taken.plus(Share{Milli: r.Pods * most.Milli, MemoryMiB: r.Pods * most.MemoryMiB})
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
