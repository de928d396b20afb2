// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// MostAllocated prefers the node of whose devices most is in use.
type MostAllocated struct{}

// String returns the name.
func (MostAllocated) String() string { return "MostAllocated" }

// Score is the used part of the node's devices in percent once the
// pod is placed: the mean of compute and memory, each rounded down.
func (MostAllocated) Score(node CandidateNode, pod PodRequest) int64 {
	s := node.Usage
	capacity := Share{
		Milli:     s.capacity.Milli * int64(s.usableDevices()),
		MemoryMiB: s.capacity.MemoryMiB * int64(s.usableDevices()),
	}
	if capacity.Milli == 0 || capacity.MemoryMiB == 0 {
		return 0
	}
	left := s.idleShare().minus(pod.Request.AtPeak(s.capacity.MemoryMiB)).max(Share{})
	used := capacity.minus(left)
	return (MaxScore*used.Milli/capacity.Milli + MaxScore*used.MemoryMiB/capacity.MemoryMiB) / 2
}

// idleShare returns what is free of all devices that are not cordoned.
func (s *Usage) idleShare() Share {
	var sum Share
	for i := range s.devices {
		if s.usable(i) {
			sum = sum.plus(s.free[i].max(Share{}))
		}
	}
	return sum
}

// Pick picks the device of which most is in use, compute and
// memory weighing the same, and the lowest index among equals.
func (MostAllocated) Pick(_ CandidateNode, _ PodRequest, left Usage, candidates Set, _ Share) int {
	best, bestFree := -1, int64(0)
	for d := range candidates.All() {
		if free := left.freeOf(d); best < 0 || free < bestFree {
			best, bestFree = d, free
		}
	}
	return best
}

// freeOf returns the free part of device i, compute and memory weighing the same;
// the unit is without meaning but the same for every device of the node.
func (s *Usage) freeOf(i int) int64 {
	return s.free[i].Milli*s.capacity.MemoryMiB + s.free[i].MemoryMiB*s.capacity.Milli
}
