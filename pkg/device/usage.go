// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

const (
	// MilliPerDevice is what one device has to give, in thousandths of itself.
	MilliPerDevice = 1000
	// MaxDevices is how many devices of one node the model can hold. It bounds
	// every array of this package, which is what keeps the hot path free of
	// allocations.
	MaxDevices = 16
	// MaxContainers is how many containers of one pod may ask for shares.
	MaxContainers = 16
	// MaxMemoryMiB is the largest device memory that is believed, 1 PiB. It keeps
	// every sum of recorded shares far from the limits of int64.
	MaxMemoryMiB = 1 << 30
)

// Share is an amount of one device. Compute and memory are counted side by side
// and neither pays for the other.
type Share struct {
	// Milli is in thousandths of the device.
	Milli int64
	// MemoryMiB is in MiB of device memory.
	MemoryMiB int64
}

// plus returns the sum of both.
func (a Share) plus(b Share) Share {
	return Share{Milli: a.Milli + b.Milli, MemoryMiB: a.MemoryMiB + b.MemoryMiB}
}

// minus returns what is left of a; it may be negative.
func (a Share) minus(b Share) Share {
	return Share{Milli: a.Milli - b.Milli, MemoryMiB: a.MemoryMiB - b.MemoryMiB}
}

// covers reports whether a is at least b in both dimensions.
func (a Share) covers(b Share) bool {
	return a.Milli >= b.Milli && a.MemoryMiB >= b.MemoryMiB
}

// max returns the larger of both, dimension by dimension, as a pod's effective
// request is taken for CPU and memory.
func (a Share) max(b Share) Share {
	return Share{Milli: max(a.Milli, b.Milli), MemoryMiB: max(a.MemoryMiB, b.MemoryMiB)}
}

// PodUsage is what a pod uses of each device of its node, from when it is assumed until
// it has terminated.
type PodUsage [MaxDevices]Share

// Milli returns the thousandths of all devices together.
func (p *PodUsage) Milli() int64 {
	var sum int64
	for i := range p {
		sum += p[i].Milli
	}
	return sum
}

// Devices returns the devices that the pod uses.
func (p *PodUsage) Devices() Set {
	var used Set
	for i := range p {
		if p[i] != (Share{}) {
			used = used.With(i)
		}
	}
	return used
}

// Usage is how much of each device of one node is used, and what is free. It is a plain
// value: assignment copies it, so that a hypothetical placement leaves no trace. It is
// not safe for concurrent writers.
//
// Adding and removing are arithmetic and refuse nothing, because a bound pod uses what
// its record says whatever the node looks like by now. Only placing something new checks
// for room; see Fits and Assign.
type Usage struct {
	// free may be negative: then pods use more than the device has, and nothing new
	// fits there. Entries from devices on are for pods on a node that had more devices
	// once: nothing is free there.
	free     [MaxDevices]Share
	capacity Share
	devices  int
	cordoned Set
	// pluginAllocated is how many whole devices a device plugin has given away. If it is the one
	// that counts (byPlugin), free follows from it.
	pluginAllocated int64
	byPlugin        bool
}

// NewUsage returns the usage of a node with as many free devices, of memoryMiB each.
// devices is cut to 0..MaxDevices.
func NewUsage(devices int, memoryMiB int64, cordoned Set) Usage {
	u := Usage{
		devices:  min(max(devices, 0), MaxDevices),
		capacity: Share{Milli: MilliPerDevice, MemoryMiB: memoryMiB},
		cordoned: cordoned,
	}
	for i := range u.devices {
		u.free[i] = u.capacity
	}
	return u
}

// Devices returns the number of devices, cordoned ones included.
func (u *Usage) Devices() int { return u.devices }

// Capacity returns what one device has in total.
func (u *Usage) Capacity() Share { return u.capacity }

// Cordoned returns the devices that take nothing new.
func (u *Usage) Cordoned() Set { return u.cordoned }

// Free returns what is left of device i. It is negative where more is used than the
// device has.
func (u *Usage) Free(i int) Share { return u.free[i] }

// Take counts the share as used of device i, 0 <= i < MaxDevices.
func (u *Usage) Take(i int, share Share) { u.free[i] = u.free[i].minus(share) }

// Release is the inverse of Take.
func (u *Usage) Release(i int, share Share) { u.free[i] = u.free[i].plus(share) }

// Add counts everything that a pod uses.
func (u *Usage) Add(p *PodUsage) {
	for i := range p {
		u.free[i] = u.free[i].minus(p[i])
	}
}

// Remove is the inverse of Add.
func (u *Usage) Remove(p *PodUsage) {
	for i := range p {
		u.free[i] = u.free[i].plus(p[i])
	}
}

// AddPluginAllocated counts whole devices that a device plugin gives away or, if the number is
// negative, takes back. Which ones it alone knows; whole devices are alike, so the first
// are taken for them, unless the node is shared.
func (u *Usage) AddPluginAllocated(devices int64) {
	u.pluginAllocated += devices
	if !u.byPlugin {
		return
	}
	for i := range u.devices {
		u.free[i] = u.capacity
		if int64(i) < u.pluginAllocated {
			u.free[i] = Share{}
		}
	}
}

// Overcommitted returns the devices of which more is used than they have, also those
// that the node has not got. If a device plugin gave away more than there are, it is the
// last.
func (u *Usage) Overcommitted() Set {
	var over Set
	for i := range u.free {
		if u.free[i].Milli < 0 || u.free[i].MemoryMiB < 0 {
			over = over.With(i)
		}
	}
	if u.byPlugin && u.pluginAllocated > int64(u.devices) {
		over = over.With(max(0, u.devices-1))
	}
	return over
}

// InUse returns how many devices are used, in part or whole.
func (u *Usage) InUse() int {
	n := int(u.pluginAllocated)
	for i := range u.devices {
		if !u.byPlugin && u.free[i] != u.capacity {
			n++
		}
	}
	return n
}

// usable reports whether device i may take anything new at all.
func (u *Usage) usable(i int) bool { return !u.cordoned.Has(i) }

// IdleMilli returns the free thousandths that somebody could still be given: none of a
// cordoned or overcommitted device.
func (u *Usage) IdleMilli() int64 {
	var sum int64
	for i := range u.devices {
		if !u.cordoned.Has(i) {
			sum += max(0, u.free[i].Milli)
		}
	}
	return sum
}

// AllocatedMilli returns the thousandths that are used of the node's devices, of those
// that are not cordoned and of those that are. It is more than there is where devices
// are overcommitted.
func (u *Usage) AllocatedMilli() (usable, cordoned int64) {
	for i := range u.devices {
		if used := u.capacity.Milli - u.free[i].Milli; u.cordoned.Has(i) {
			cordoned += used
		} else {
			usable += used
		}
	}
	return usable, cordoned
}

// usableDevices returns how many devices are not cordoned.
func (u *Usage) usableDevices() int {
	n := u.devices
	for i := range u.devices {
		if u.cordoned.Has(i) {
			n--
		}
	}
	return n
}

// Fits reports whether the devices have room for the request now. It is true
// exactly when Assign succeeds on the same usage, with any strategy. It
// allocates nothing.
//
// A pod with one container that asks, which is nearly every pod, costs one look at each
// device. Several are a packing problem; the search is exact within a budget of
// searchBudget steps, and a pod that exceeds it does not fit.
func (u *Usage) Fits(r *Request) bool {
	switch len(r.Containers) {
	case 0:
		return true
	case 1:
		c := &r.Containers[0]
		share, ok := c.On(u.capacity.MemoryMiB)
		return ok && u.countFitting(share) >= c.Devices
	}
	p, ok := newPlacer(u, r.Containers)
	return ok && p.place(0, &picker{strategy: BestFit{}})
}

// Lacks returns what devices without room for the request have too little of: NoMemory
// if enough of them have the compute for each container, and NoShare otherwise.
func (u *Usage) Lacks(r *Request) Reason {
	for i := range r.Containers {
		c := &r.Containers[i]
		share, ok := c.On(u.capacity.MemoryMiB)
		if !ok {
			return LargerThanDevice
		}
		if u.countFitting(share) < c.Devices && u.countFitting(Share{Milli: share.Milli, MemoryMiB: minMemory}) >= c.Devices {
			return NoMemory
		}
	}
	return NoShare
}

// minMemory is less than any device has free.
const minMemory = -1 << 62

// countFitting returns how many devices have room for the share.
func (u *Usage) countFitting(share Share) int {
	n := 0
	for i := range u.devices {
		if u.free[i].covers(share) && !u.cordoned.Has(i) {
			n++
		}
	}
	return n
}

// Fitting returns the devices that have room for the share.
func (u *Usage) Fitting(share Share) Set {
	var fit Set
	for i := range u.devices {
		if u.free[i].covers(share) {
			fit = fit.With(i)
		}
	}
	return fit &^ u.cordoned
}
