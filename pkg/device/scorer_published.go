// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// bestFitPoints is how many values the tie-break of
// FragmentationGradientPublished has.
const bestFitPoints = MaxScore + 1

// MaxPackedScore is the largest score of FragmentationGradientPublished.
const MaxPackedScore = MaxScore*bestFitPoints + MaxScore

// UnpackScore splits a score of FragmentationGradientPublished into its parts,
// each 0 to MaxScore: first by what nodes are compared, then by what ties are
// broken.
func UnpackScore(packed int64) (fragmentation, bestFit int64) {
	return packed / bestFitPoints, packed % bestFitPoints
}

// scorePublished packs two scores into one, the second deciding among equals
// of the first:
//
//  1. 100 * sigmoid(gradient in devices), cut to whole points: the score of the
//     paper. A single share takes the device where the gradient is largest; any
//     other pod is placed as Assign would.
//  2. BestFit. Without it the method is worse than best-fit alone: most nodes
//     tie, and the paper's own results rest on a tie-break that packs.
func scorePublished(site Site, demand Demand) int64 {
	return fragmentationPoints(site, demand)*bestFitPoints + scoreBestFit(site, demand)
}

// fragmentationPoints is the first part.
func fragmentationPoints(site Site, demand Demand) int64 {
	e, s := site.Expected, site.State
	const noChange = MaxScore / 2
	if e == nil || e.weight == 0 {
		return noChange
	}
	cpuAfter := site.CPUMilli - demand.CPUMilli
	if asks := demand.Request.Asks; len(asks) == 1 {
		share, ok := asks[0].On(s.capacity.MemoryMiB)
		if candidates := s.fitting(share); ok && candidates != 0 && share.Milli < MilliPerDevice {
			var gradients [MaxDevices]int64
			e.gradients(s, candidates, share, site.CPUMilli, cpuAfter, &gradients)
			best := gradients[candidates.Lowest()]
			for d := range candidates.All() {
				best = max(best, gradients[d])
			}
			return e.points(best)
		}
	}
	policy := Policy{Strategy: FragmentationGradientPublished}
	assignment, ok := policy.Assign(site, demand)
	if !ok {
		return 0
	}
	after := *s
	holding := assignment.Holding(demand.Request.Asks)
	after.TakeAll(&holding)
	return e.points(e.amount(s, site.CPUMilli) - e.amount(&after, cpuAfter))
}

// choosePublished chooses the device with the most points, the lowest index
// among equals.
func choosePublished(site Site, demand Demand, left *State, candidates Set, share Share) int {
	e := site.Expected
	if e == nil || e.weight == 0 {
		return chooseTightest(left, candidates)
	}
	var gradients [MaxDevices]int64
	e.gradients(left, candidates, share, site.CPUMilli, site.CPUMilli-demand.CPUMilli, &gradients)
	best, bestPoints := -1, int64(0)
	for d := range candidates.All() {
		if points := e.points(gradients[d]); best < 0 || points > bestPoints {
			best, bestPoints = d, points
		}
	}
	return best
}
