// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// scoreLeastAllocated is the free part of the node's devices in percent once the
// pod is placed: what scoreMostAllocated leaves of 100. A node without usable
// devices scores 0.
func scoreLeastAllocated(site Site, demand Demand) int64 {
	if site.State.usableDevices() == 0 {
		return 0
	}
	return MaxScore - scoreMostAllocated(site, demand)
}

// chooseLeastAllocated chooses the device of which least is in use, compute and
// memory weighing the same, and the lowest index among equals.
func chooseLeastAllocated(left *State, candidates Set) int {
	best, bestFree := -1, int64(0)
	for d := range candidates.All() {
		if free := left.freeOf(d); best < 0 || free > bestFree {
			best, bestFree = d, free
		}
	}
	return best
}
