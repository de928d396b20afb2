// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strings"
)

// MaxScore is the best score of a strategy, that of the scheduler framework. The
// scores of FragmentationGradient go up to MaxGradientScore.
const MaxScore = 100

// Strategy says by what nodes are scored and shares are given a device. Its methods are
// pure, unless it draws at random, and safe for concurrent use then.
type Strategy interface {
	// String returns the name by which the arguments of the plugin choose it.
	String() string
	// Score rates placing the pod on the node, which must have room for it: higher is
	// better. It allocates nothing.
	Score(node CandidateNode, pod PodRequest) int64
	// Pick picks one device for a share among candidates, of which there is at least
	// one and each has room. left is what is free beside what the pod has been given
	// so far; it is a copy, so that nothing on the way here escapes to the heap.
	Pick(node CandidateNode, pod PodRequest, left Usage, candidates Set, share Share) int
}

// Strategies returns all strategies of this package. Each has a file of its own,
// scorer_<name>.go, with its formula.
func Strategies() []Strategy {
	return []Strategy{FragmentationGradient{}, BestFit{}, MostAllocated{}, LeastAllocated{}}
}

// ParseStrategy returns the strategy of that name.
func ParseStrategy(name string) (Strategy, error) {
	var names []string
	for _, strategy := range Strategies() {
		if strategy.String() == name {
			return strategy, nil
		}
		names = append(names, strategy.String())
	}
	return nil, fmt.Errorf("unknown strategy %q: use one of %s", name, strings.Join(names, ", "))
}

// MaxNode is the largest node of the cluster, each amount on its own: by it amounts of
// different units are made comparable. An amount of zero or less counts as 1.
type MaxNode struct {
	// CPUMilli is the CPU of the node that has the most of it, in milli-CPU.
	CPUMilli int64
	// GPUMilli is the devices of the node that has the most, 1000 each.
	GPUMilli int64
}

// OrOne returns the amounts with nothing to divide by zero.
func (s MaxNode) OrOne() (cpu, gpu int64) {
	return max(1, s.CPUMilli), max(1, s.GPUMilli)
}

// CandidateNode is a node on which the pod may be placed, as a strategy sees it.
type CandidateNode struct {
	// Usage is what is free of its devices. It is only read.
	Usage *Usage
	// CPUMilli is the CPU that is not requested by any pod, in milli-CPU.
	CPUMilli int64
	// MaxNode is the same for every node of a cycle.
	MaxNode MaxNode
	// Workload is the expected workload as it sees this kind of node. Of the
	// strategies here FragmentationGradient alone reads it; nil is an empty workload.
	Workload *NodeWorkload
}

// PodRequest is one pod as a strategy sees it.
type PodRequest struct {
	// Request is what the pod asks for of devices; RequestNone is fine.
	Request *Request
	// CPUMilli is the CPU that the pod requests, in milli-CPU.
	CPUMilli int64
}

// Assign chooses the devices of the pod on the node by the strategy. It is false if
// there is no room, exactly when Usage.Fits is. Nothing is taken: that is Usage.Add
// with Assignment.PodUsage.
func Assign(strategy Strategy, node CandidateNode, pod PodRequest) (Assignment, bool) {
	state, containers := node.Usage, pod.Request.Containers
	if len(containers) == 0 {
		return Assignment{}, true
	}
	// Fits comes first: a search by other preferences may use up its budget earlier or
	// later, and both must give the same answer.
	if !state.Fits(pod.Request) {
		return Assignment{}, false
	}
	c := picker{strategy: strategy, node: node, pod: pod}
	p, _ := newPlacer(state, containers)
	if !p.place(0, &c) {
		p, _ = newPlacer(state, containers)
		if !p.place(0, &picker{strategy: BestFit{}}) {
			return Assignment{}, false
		}
	}
	p.placeInits(&c)
	return p.result, true
}

// picker picks devices for one pod on one node by a strategy.
type picker struct {
	strategy Strategy
	node     CandidateNode
	pod      PodRequest
}

func (c *picker) pick(left *Usage, candidates Set, share Share) int {
	return c.strategy.Pick(c.node, c.pod, *left, candidates, share)
}
