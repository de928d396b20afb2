// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// MaxScore is the best score of a strategy, that of the scheduler framework. The
// scores of FragmentationGradient go up to MaxGradientScore and those of
// FragmentationGradientPublished, which are packed, up to MaxPackedScore.
const MaxScore = 100

// Strategy says by what nodes are scored and shares are given a device.
type Strategy uint8

// The strategies. Each has a file of its own, scorer_<name>.go, with its formula.
const (
	// FragmentationGradient prefers the placement that takes least from what the
	// free devices are worth to the expected workload.
	FragmentationGradient Strategy = iota
	// FragmentationGradientPublished is the policy of the fragmentation paper (FGD,
	// ATC'23), from which FragmentationGradient comes, to compare with.
	FragmentationGradientPublished
	// BestFit prefers the placement that leaves least free.
	BestFit
	// MostAllocated prefers the node of whose devices most is in use.
	MostAllocated
	// LeastAllocated prefers the node of whose devices least is in use.
	LeastAllocated
	// DotProduct prefers nodes whose free amounts are unlike the request.
	DotProduct
	// Random prefers one node at random; the yardstick for the others.
	Random
)

// strategyNames are indexed by Strategy.
var strategyNames = [...]string{"FragmentationGradient", "FragmentationGradientPublished", "BestFit", "MostAllocated", "LeastAllocated", "DotProduct", "Random"}

// ParseStrategy returns the strategy of that name.
func ParseStrategy(name string) (Strategy, error) {
	if i := slices.Index(strategyNames[:], name); i >= 0 {
		return Strategy(i), nil //nolint:gosec // an index of a short array
	}
	return 0, fmt.Errorf("unknown strategy %q: use one of %s", name, strings.Join(strategyNames[:], ", "))
}

// String returns the name that ParseStrategy takes.
func (s Strategy) String() string {
	if int(s) >= len(strategyNames) {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategyNames[s]
}

// Scale is by what amounts of different units are made comparable: the largest of
// any node of the cluster. A scale of zero or less counts as 1.
type Scale struct {
	// CPUMilli is the CPU of the node that has the most of it, in milli-CPU.
	CPUMilli int64
	// GPUMilli is the devices of the node that has the most, 1000 each.
	GPUMilli int64
}

// Site is one node as a strategy sees it.
type Site struct {
	// State is what is free of its devices. It is only read.
	State *State
	// CPUMilli is the CPU that is not requested by any pod, in milli-CPU.
	CPUMilli int64
	// Scale is the same for every node of a cycle.
	Scale Scale
	// Expected is the expected workload as it sees this kind of node. Only the
	// two fragmentation gradients read it; nil is an empty workload.
	Expected *Expected
}

// Demand is one pod as a strategy sees it.
type Demand struct {
	// Request is what the pod asks for of devices; FormNone is fine.
	Request *Request
	// CPUMilli is the CPU that the pod requests, in milli-CPU.
	CPUMilli int64
}

// Policy is a strategy with what it needs to decide. It is safe for concurrent
// use unless the strategy is Random.
type Policy struct {
	// Strategy is by what the policy decides.
	Strategy Strategy
	// Rand is the source of Random's choices; nil makes it take the first.
	Rand *rand.Rand
}

// Score rates placing the pod on the node, which must have room for it: higher is
// better. It allocates nothing. With Random every node is alike here; see
// DrawNode.
func (p *Policy) Score(site Site, demand Demand) int64 {
	switch p.Strategy {
	case FragmentationGradient:
		return scoreFragmentation(site, demand)
	case FragmentationGradientPublished:
		return scorePublished(site, demand)
	case BestFit:
		return scoreBestFit(site, demand)
	case MostAllocated:
		return scoreMostAllocated(site, demand)
	case LeastAllocated:
		return scoreLeastAllocated(site, demand)
	case DotProduct:
		return scoreDotProduct(site, demand)
	default:
		return 0
	}
}

// Assign chooses the devices of the pod on the node. It is false if there is no
// room, exactly when State.Fits is. Nothing is taken: that is State.TakeAll with
// Assignment.Holding.
func (p *Policy) Assign(site Site, demand Demand) (Assignment, bool) {
	c := chooser{strategy: p.Strategy, rand: p.Rand, site: site, demand: demand}
	return c.assign()
}
