// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// LeastAllocated prefers the node of whose devices least is in use.
type LeastAllocated struct{}

// String returns the name.
func (LeastAllocated) String() string { return "LeastAllocated" }

// Score is the free part of the node's devices in percent once the
// pod is placed: what MostAllocated leaves of 100. A node without usable
// devices scores 0.
func (LeastAllocated) Score(node CandidateNode, pod PodRequest) int64 {
	if node.Usage.usableDevices() == 0 {
		return 0
	}
	return MaxScore - MostAllocated{}.Score(node, pod)
}

// Pick picks the device of which least is in use, compute and
// memory weighing the same, and the lowest index among equals.
func (LeastAllocated) Pick(_ CandidateNode, _ PodRequest, left Usage, candidates Set, _ Share) int {
	best, bestFree := -1, int64(0)
	for d := range candidates.All() {
		if free := left.freeOf(d); best < 0 || free > bestFree {
			best, bestFree = d, free
		}
	}
	return best
}
