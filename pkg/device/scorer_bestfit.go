// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// BestFit prefers the placement that leaves least free.
type BestFit struct{}

// String returns the name.
func (BestFit) String() string { return "BestFit" }

// Score is high where little is left over:
//
//	100 * (1 - 1/2 * (CPU left / largest CPU) - 1/2 * (GPU left / largest GPU))
//
// both after the pod is placed, in whole points, cut to 0..100. The formula is
// that of the best-fit baseline of the fragmentation paper (FGD, ATC'23). It is
// computed in integers, so it does not depend on rounding; with up to 2^40
// milli-CPU no product overflows.
func (BestFit) Score(node CandidateNode, pod PodRequest) int64 {
	cpuScale, gpuScale := node.MaxNode.OrOne()
	cpuLeft := min(max(0, node.CPUMilli-pod.CPUMilli), cpuScale)
	gpuLeft := min(max(0, node.Usage.IdleMilli()-pod.Request.AtPeak(node.Usage.capacity.MemoryMiB).Milli), gpuScale)
	leftover := cpuLeft*gpuScale + gpuLeft*cpuScale
	return MaxScore * (2*cpuScale*gpuScale - leftover) / (2 * cpuScale * gpuScale)
}

// Pick picks the device with the least left: of compute, then of memory, then the
// lowest index.
func (BestFit) Pick(_ CandidateNode, _ PodRequest, left Usage, candidates Set, _ Share) int {
	best := -1
	for d := range candidates.All() {
		if best < 0 || less(left.free[d], left.free[best]) {
			best = d
		}
	}
	return best
}
