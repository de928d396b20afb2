// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrTooLarge is returned when a Problem has more placements than Optimum may look
// at.
var ErrTooLarge = errors.New("too large to solve exactly")

// ErrInfeasible is returned when the pods of a Problem do not fit.
var ErrInfeasible = errors.New("the pods do not fit on the nodes")

// Solution is the best placement of a Problem.
type Solution struct {
	// Share is the part of all calls that stays near, 0 to 1.
	Share float64
	// Nodes has the nodes of each Service's pods, by the Service's name.
	Nodes map[string][]string
	// Steps is how many pods were put somewhere on the way.
	Steps int
}

// Optimum returns a placement in which as many calls as possible stay within a node
// or a zone, as Graph.Share counts them, by branch and bound: exact, and
// exponential in the number of pods. It gives up with ErrTooLarge after maxSteps
// attempts to place a pod.
func Optimum(problem *Problem, routing Routing, level Level, maxSteps int) (*Solution, error) {
	in, err := newInstance(problem, routing, level)
	if err != nil {
		return nil, fmt.Errorf("invalid problem: %w", err)
	}
	s := newSearch(in, maxSteps)
	if err := s.place(0); err != nil {
		return nil, err
	}
	if s.best == nil {
		return nil, ErrInfeasible
	}
	solution := &Solution{Share: s.bestScore / float64(in.callers), Nodes: map[string][]string{}, Steps: s.steps}
	for pod, node := range s.best {
		name := in.Services[s.pods[pod]].Name
		solution.Nodes[name] = append(solution.Nodes[name], in.Nodes[node].Name)
	}
	return solution, nil
}

// search is the state of a depth-first search: the first pods have a node, the
// others have not.
type search struct {
	*instance
	maxSteps, steps int
	// pods are the Services of the pods, in the order in which they are placed.
	pods []int
	// at is the node of each pod that has one.
	at []int
	// free is what is free on each node, used how many pods it has.
	free []int64
	used []int
	// onNode and inZone count the pods of each Service that have a node, placed
	// all of them.
	onNode, inZone [][]int
	placed         []int

	best      []int
	bestScore float64
}

func newSearch(in *instance, maxSteps int) *search {
	s := &search{
		instance: in, maxSteps: maxSteps, bestScore: -1,
		used: make([]int, len(in.Nodes)), placed: make([]int, len(in.Services)),
	}
	for _, node := range in.Nodes {
		s.free = append(s.free, node.MilliCPU)
	}
	for range in.Services {
		s.onNode = append(s.onNode, make([]int, len(in.Nodes)))
		s.inZone = append(s.inZone, make([]int, in.zoneCount))
	}
	for _, service := range s.order() {
		s.pods = append(s.pods, slices.Repeat([]int{service}, in.Services[service].Replicas)...)
	}
	s.at = make([]int, len(s.pods))
	return s
}

// order returns the Services so that each has most calls, in either direction, with
// those before it: the sooner both ends of a call have a node, the tighter the
// bound.
func (s *search) order() []int {
	remaining := make([]int, len(s.Services))
	for i := range remaining {
		remaining[i] = i
	}
	var order []int
	degree := func(service int, others func(int) bool) int {
		n := 0
		for caller, calls := range s.calls {
			for _, callee := range calls {
				if caller == service && others(callee) || callee == service && others(caller) {
					n++
				}
			}
		}
		return n
	}
	for len(remaining) > 0 {
		next := slices.MaxFunc(remaining, func(a, b int) int {
			before := func(other int) bool { return slices.Contains(order, other) }
			everywhere := func(int) bool { return true }
			return cmp.Or(cmp.Compare(degree(a, before), degree(b, before)), cmp.Compare(degree(a, everywhere), degree(b, everywhere)))
		})
		order = append(order, next)
		remaining = slices.DeleteFunc(remaining, func(service int) bool { return service == next })
	}
	return order
}

// place tries every node for a pod and for those after it.
func (s *search) place(pod int) error {
	if pod == len(s.pods) {
		if score := s.bound(); score > s.bestScore {
			s.bestScore, s.best = score, slices.Clone(s.at)
		}
		return nil
	}
	type branch struct {
		node  int
		bound float64
	}
	var branches []branch
	for _, node := range s.candidates(pod) {
		if s.steps++; s.steps > s.maxSteps {
			return fmt.Errorf("%w: %d pods, %d nodes, %d steps", ErrTooLarge, len(s.pods), len(s.Nodes), s.maxSteps)
		}
		s.move(pod, node, 1)
		branches = append(branches, branch{node, s.bound()})
		s.move(pod, node, -1)
	}
	// The most promising first: it soon leads to a score that rules others out.
	slices.SortStableFunc(branches, func(a, b branch) int { return cmp.Compare(b.bound, a.bound) })
	for _, branch := range branches {
		// Sums of the same terms in another order differ in their last digits.
		if branch.bound <= s.bestScore+1e-9 {
			break
		}
		s.move(pod, branch.node, 1)
		err := s.place(pod + 1)
		s.move(pod, branch.node, -1)
		if err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the nodes that a pod fits on, less those that lead to the same
// placements under other names: replicas go to nodes in ascending order, and of
// empty nodes that are alike only the first is tried.
func (s *search) candidates(pod int) []int {
	service := s.pods[pod]
	first := 0
	if pod > 0 && s.pods[pod-1] == service {
		first = s.at[pod-1]
	}
	var nodes []int
	for node := first; node < len(s.Nodes); node++ {
		alike := func(other int) bool {
			return s.used[node] == 0 && s.used[other] == 0 && s.zone[node] == s.zone[other] && s.free[node] == s.free[other]
		}
		if s.fits(service, node) && !slices.ContainsFunc(nodes, alike) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// fits says whether a node has room, and its zone too under Spread.
func (s *search) fits(service, node int) bool {
	if s.Services[service].MilliCPU > s.free[node] {
		return false
	}
	counts := s.inZone[service]
	count := counts[s.zone[node]] + 1
	if count < s.limit[service] {
		return true
	}
	full := 0
	for _, other := range counts {
		if other == s.limit[service] {
			full++
		}
	}
	return count == s.limit[service] && full < s.full[service]
}

// move puts a pod on a node, or takes it away with n -1.
func (s *search) move(pod, node, n int) {
	service := s.pods[pod]
	s.at[pod] = node
	s.free[node] -= int64(n) * s.Services[service].MilliCPU
	s.used[node] += n
	s.onNode[service][node] += n
	s.inZone[service][s.zone[node]] += n
	s.placed[service] += n
}

// bound returns the most calls, one a calling pod, that can stay near whatever
// becomes of the pods without a node. When all have one it is what does.
func (s *search) bound() float64 {
	sum := 0.0
	for caller, calls := range s.calls {
		if len(calls) == 0 {
			continue
		}
		best := 0.0
		for node, count := range s.onNode[caller] {
			if count > 0 {
				sum += float64(count) * s.near(caller, node)
			}
		}
		waiting := s.Services[caller].Replicas - s.placed[caller]
		if waiting == 0 {
			continue
		}
		for node := range s.Nodes {
			if best < 1 && s.fits(caller, node) {
				best = max(best, s.near(caller, node))
			}
		}
		sum += float64(waiting) * best
	}
	return sum
}

// near returns the most of the calls of a pod on a node, 0 to 1, that can stay near.
func (s *search) near(caller, node int) float64 {
	sum := 0.0
	for _, callee := range s.calls[caller] {
		e := endpoints{onNode: s.onNode[callee][node], inZone: s.inZone[callee][s.zone[node]] - s.onNode[callee][node]}
		e.elsewhere = s.placed[callee] - e.onNode - e.inZone
		// Those to come go where they help most: on the node and into its zone what
		// fits, and where it does not help, out of the way.
		waiting := s.Services[callee].Replicas - s.placed[callee]
		inZone := min(waiting, s.limit[callee]-s.inZone[callee][s.zone[node]])
		onNode := inZone
		if cpu := s.Services[callee].MilliCPU; cpu > 0 {
			onNode = int(min(int64(inZone), s.free[node]/cpu))
		}
		e.onNode += onNode
		e.elsewhere += waiting - onNode
		if s.level == Zone {
			e.inZone += inZone - onNode
			e.elsewhere -= inZone - onNode
		}
		within, withinZone := s.routing.split(e)
		if s.level == Zone {
			within = withinZone
		}
		sum += within
	}
	return sum / float64(len(s.calls[caller]))
}
