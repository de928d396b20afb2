// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// State is how much of each device of one node is free. It is a plain value:
// assignment copies it, so that a hypothetical placement leaves no trace. It is
// not safe for concurrent writers.
//
// Take and Release are arithmetic and refuse nothing, because a bound pod holds
// what its record says whatever the node looks like by now. Only placing
// something new checks for room; see Fits and Assign.
type State struct {
	// free may be negative: then pods hold more than the device has, and nothing
	// new fits there. Entries from devices on are kept for pods on a node that
	// had more devices once, and never used for new ones.
	free     [MaxDevices]Share
	capacity Share
	devices  int
	cordoned Set
}

// NewState returns the state of a node with as many free devices, of memoryMiB
// each. devices is cut to 0..MaxDevices.
func NewState(devices int, memoryMiB int64, cordoned Set) State {
	s := State{
		devices:  min(max(devices, 0), MaxDevices),
		capacity: Share{Milli: MilliPerDevice, MemoryMiB: memoryMiB},
		cordoned: cordoned,
	}
	for i := range s.free {
		s.free[i] = s.capacity
	}
	return s
}

// Devices returns the number of devices, cordoned ones included.
func (s *State) Devices() int {
	return s.devices
}

// Capacity returns what one device has in total.
func (s *State) Capacity() Share {
	return s.capacity
}

// Cordoned returns the devices that take nothing new.
func (s *State) Cordoned() Set {
	return s.cordoned
}

// Free returns what is left of device i. It is negative where more is held than
// the device has.
func (s *State) Free(i int) Share {
	return s.free[i]
}

// Take counts the share as held on device i, 0 <= i < MaxDevices.
func (s *State) Take(i int, share Share) {
	s.free[i] = s.free[i].minus(share)
}

// Release is the inverse of Take.
func (s *State) Release(i int, share Share) {
	s.free[i] = s.free[i].plus(share)
}

// TakeAll counts everything that a pod holds.
func (s *State) TakeAll(h *Holding) {
	for i := range h {
		s.free[i] = s.free[i].minus(h[i])
	}
}

// ReleaseAll is the inverse of TakeAll.
func (s *State) ReleaseAll(h *Holding) {
	for i := range h {
		s.free[i] = s.free[i].plus(h[i])
	}
}

// Overcommitted returns the devices of which more is held than they have.
func (s *State) Overcommitted() Set {
	var over Set
	for i := range s.free {
		if s.free[i].Milli < 0 || s.free[i].MemoryMiB < 0 {
			over = over.With(i)
		}
	}
	return over
}

// usable reports whether device i may take anything new at all.
func (s *State) usable(i int) bool {
	return !s.cordoned.Has(i)
}

// idle returns the free thousandths that somebody could still be given on device
// i: none of a cordoned or overcommitted device.
func (s *State) idle(i int) int64 {
	if s.cordoned.Has(i) {
		return 0
	}
	return max(0, s.free[i].Milli)
}

// IdleMilli returns the free thousandths of all devices that are not cordoned.
func (s *State) IdleMilli() int64 {
	var sum int64
	for i := range s.devices {
		sum += s.idle(i)
	}
	return sum
}

// usableDevices returns how many devices are not cordoned.
func (s *State) usableDevices() int {
	n := s.devices
	for i := range s.devices {
		if s.cordoned.Has(i) {
			n--
		}
	}
	return n
}
