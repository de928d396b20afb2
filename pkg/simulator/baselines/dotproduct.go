// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import "github.com/berth-scheduler/berth/pkg/device"

// DotProduct prefers nodes whose free amounts are unlike the request.
type DotProduct struct{ device.BestFit }

var _ device.Strategy = DotProduct{}

// String returns the name.
func (DotProduct) String() string { return "DotProduct" }

// Score is low where the node has much of what the pod wants much of:
//
//	100 * (1 - 1/2 * (CPU free * CPU asked / largest CPU^2
//	                  + GPU free * GPU asked / largest GPU^2))
//
// both before the pod is placed, cut to whole points. It is the dot-product
// baseline of the fragmentation paper, merged over all devices of a node and
// normalised by the largest node. The products do not fit an int64 on large
// nodes, hence the floats. Each product is rounded by its assignment, which keeps
// compilers from fusing it into the sum: the score is the same on every platform.
func (DotProduct) Score(input device.CandidateNode, demand device.PodRequest) int64 {
	cpuScale, gpuScale := input.MaxNode.OrOne()
	asked := demand.Request.AtPeak(input.Usage.Capacity().MemoryMiB).Milli
	cpu := part(input.CPUMilli, cpuScale) * part(demand.CPUMilli, cpuScale)
	gpu := part(input.Usage.IdleMilli(), gpuScale) * part(asked, gpuScale)
	return int64(device.MaxScore * (1 - (cpu+gpu)/2))
}

// part returns n of scale, cut to 0..1.
func part(n, scale int64) float64 {
	return min(max(0, float64(n)/float64(scale)), 1)
}
