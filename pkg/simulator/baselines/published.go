// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Published is the policy of the fragmentation paper (FGD, ATC'23), from which
// FragmentationGradient comes.
type Published struct{}

var _ device.Strategy = Published{}

// bestFitPoints is how many values the tie-break has.
const bestFitPoints = device.MaxScore + 1

// String returns the name.
func (Published) String() string { return "FragmentationGradientPublished" }

// Score packs two scores into one, the second deciding among equals of the first:
//
//  1. 100 * sigmoid(gradient in devices), cut to whole points: the score of the
//     paper. A single share takes the device where the gradient is largest; any
//     other pod is placed as Assign would.
//  2. BestFit. Without it the method is worse than best-fit alone: most nodes
//     tie, and the paper's own results rest on a tie-break that packs.
func (p Published) Score(input device.CandidateNode, demand device.PodRequest) int64 {
	return p.fragmentationPoints(input, demand)*bestFitPoints + device.BestFit{}.Score(input, demand)
}

// fragmentationPoints is the first part.
func (p Published) fragmentationPoints(input device.CandidateNode, demand device.PodRequest) int64 {
	e := input.Workload
	if e == nil || e.Weight() == 0 {
		return device.MaxScore / 2 // nothing changes
	}
	if containers := demand.Request.Containers; len(containers) == 1 {
		share, ok := containers[0].On(input.Usage.Capacity().MemoryMiB)
		if candidates := input.Usage.Fitting(share); ok && candidates != 0 && share.Milli < device.MilliPerDevice {
			_, best := pick(input, demand, input.Usage, candidates, share)
			return best
		}
	}
	assignment, ok := device.Assign(p, input, demand)
	if !ok {
		return 0
	}
	after := *input.Usage
	used := assignment.PodUsage(demand.Request.Containers)
	after.Add(&used)
	return points(e, e.FragmentedWeighted(input.Usage, input.CPUMilli)-e.FragmentedWeighted(&after, input.CPUMilli-demand.CPUMilli))
}

// Pick picks the device with the most points, the lowest index among equals.
func (Published) Pick(input device.CandidateNode, demand device.PodRequest, left device.Usage, candidates device.Set, share device.Share) int {
	if e := input.Workload; e == nil || e.Weight() == 0 {
		return device.BestFit{}.Pick(input, demand, left, candidates, share)
	}
	d, _ := pick(input, demand, &left, candidates, share)
	return d
}

// pick returns the device from which the share is taken with the most points, the
// lowest index among equals, and those points. Of devices with as much left the first
// stands for all.
func pick(input device.CandidateNode, demand device.PodRequest, left *device.Usage, candidates device.Set, share device.Share) (best int, most int64) {
	e := input.Workload
	before := e.FragmentedWeighted(left, input.CPUMilli)
	best = -1
	var tried device.Set
	for d := range candidates.All() {
		if alike(left, tried, d) {
			continue
		}
		tried = tried.With(d)
		after := *left
		after.Take(d, share)
		if got := points(e, before-e.FragmentedWeighted(&after, input.CPUMilli-demand.CPUMilli)); best < 0 || got > most {
			best, most = d, got
		}
	}
	return best, most
}

// alike reports whether one of the devices has as much free as device d.
func alike(s *device.Usage, devices device.Set, d int) bool {
	for e := range devices.All() {
		if s.Free(e) == s.Free(d) {
			return true
		}
	}
	return false
}

// points turns a gradient, by how much the fragmented idle compute shrinks, times the
// weight of the workload into the paper's score: 100 times the sigmoid of the gradient
// in devices, cut to whole points. 50 is no change. The cut is part of the method: nodes
// that differ by little are left to the tie-break, which packs, and that places more
// than the full precision does.
func points(e *device.NodeWorkload, weighted int64) int64 {
	x := float64(weighted) / float64(e.Weight()) / device.MilliPerDevice
	return int64(device.MaxScore / (1 + math.Exp(-x)))
}
