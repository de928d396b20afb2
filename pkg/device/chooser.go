// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "math/rand/v2"

// chooser chooses devices for one pod on one node by a strategy. It is a struct
// and not an interface so that nothing on the way to it escapes to the heap.
type chooser struct {
	strategy Strategy
	rand     *rand.Rand
	site     Site
	demand   Demand
}

// assign runs the search with the strategy's preferences. Fits comes first: a
// search by other preferences may use up its budget earlier or later, and both
// must give the same answer.
func (c *chooser) assign() (Assignment, bool) {
	state, asks := c.site.State, c.demand.Request.Asks
	if len(asks) == 0 {
		return Assignment{}, true
	}
	if !state.Fits(c.demand.Request) {
		return Assignment{}, false
	}
	p, _ := newPlacer(state, asks)
	if !p.place(0, c) {
		p, _ = newPlacer(state, asks)
		if !p.place(0, &chooser{strategy: BestFit}) {
			return Assignment{}, false
		}
	}
	p.placeInits(c)
	return p.result, true
}

// choose chooses one device for a share among candidates, of which there is at
// least one and each has room. left is what is free beside what the pod has been
// given so far.
func (c *chooser) choose(left *State, candidates Set, share Share) int {
	switch c.strategy {
	case FragmentationGradient:
		return chooseFragmentation(c.site, c.demand, left, candidates, share)
	case FragmentationGradientPublished:
		return choosePublished(c.site, c.demand, left, candidates, share)
	case MostAllocated:
		return chooseMostAllocated(left, candidates)
	case LeastAllocated:
		return chooseLeastAllocated(left, candidates)
	case Random:
		return chooseRandom(c.rand, candidates)
	default:
		return chooseTightest(left, candidates)
	}
}
