// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// zoneProblem is how to place one pod of each Service on the nodes of a zone, so that
// as many calls as possible stay within a node.
type zoneProblem struct {
	// free is what each node has, and cpu what each Service's pod requests.
	free, cpu []int64
	// calls are the Services that each Service calls.
	calls [][]int
	// at is the node of each Service's pod; -1 as long as it has none.
	at []int
}

// unplaced returns the problem with no pod on a node.
func (p zoneProblem) unplaced() *zoneProblem {
	p.free, p.at = slices.Clone(p.free), slices.Repeat([]int{-1}, len(p.cpu))
	return &p
}

// optimum returns the most calls that can stay within a node, where each caller makes
// one in all, by branch and bound: exact, and exponential in the number of pods. It is
// -1 if they do not fit.
func (p zoneProblem) optimum() float64 {
	s, best := p.unplaced(), -1.0
	order := s.order()
	var place func(depth int)
	place = func(depth int) {
		if depth == len(order) {
			best = max(best, s.bound())
			return
		}
		service := order[depth]
		type branch struct {
			node  int
			bound float64
		}
		var branches []branch
		for node := range s.free {
			if s.cpu[service] <= s.free[node] {
				s.move(service, node)
				branches = append(branches, branch{node, s.bound()})
				s.move(service, -1)
			}
		}
		// The most promising first: it soon leads to a result that rules others out.
		slices.SortStableFunc(branches, func(a, b branch) int { return cmp.Compare(b.bound, a.bound) })
		for _, branch := range branches {
			// Sums of the same terms in another order differ in their last digits.
			if branch.bound <= best+1e-9 {
				return
			}
			s.move(service, branch.node)
			place(depth + 1)
			s.move(service, -1)
		}
	}
	place(0)
	return best
}

// order returns the Services so that each has most calls, in either direction, with
// those before it: the sooner both ends of a call have a node, the tighter the bound.
func (p *zoneProblem) order() []int {
	var order, remaining []int
	degree := func(service int, counts func(int) bool) int {
		n := 0
		for caller, calls := range p.calls {
			for _, callee := range calls {
				if caller == service && counts(callee) || callee == service && counts(caller) {
					n++
				}
			}
		}
		return n
	}
	before := func(other int) bool { return slices.Contains(order, other) }
	all := func(int) bool { return true }
	for service := range p.cpu {
		remaining = append(remaining, service)
	}
	for len(remaining) > 0 {
		next := slices.MaxFunc(remaining, func(a, b int) int {
			return cmp.Or(cmp.Compare(degree(a, before), degree(b, before)), cmp.Compare(degree(a, all), degree(b, all)))
		})
		order = append(order, next)
		remaining = slices.DeleteFunc(remaining, func(service int) bool { return service == next })
	}
	return order
}

// move puts a Service's pod on a node, or takes it away with -1.
func (p *zoneProblem) move(service, node int) {
	if old := p.at[service]; old >= 0 {
		p.free[old] += p.cpu[service]
	}
	if p.at[service] = node; node >= 0 {
		p.free[node] -= p.cpu[service]
	}
}

// bound returns the most calls that can stay near whatever becomes of the pods without
// a node. When all have one it is what does.
func (p *zoneProblem) bound() float64 {
	sum := 0.0
	for caller, calls := range p.calls {
		if len(calls) == 0 {
			continue
		}
		if p.at[caller] >= 0 {
			sum += p.near(caller, p.at[caller])
			continue
		}
		best := 0.0
		for node := range p.free {
			if p.cpu[caller] <= p.free[node] {
				best = max(best, p.near(caller, node))
			}
		}
		sum += best
	}
	return sum
}

// near returns the most of the calls of a pod on a node, 0 to 1, that can stay there.
func (p *zoneProblem) near(caller, node int) float64 {
	count := 0
	for _, callee := range p.calls[caller] {
		if p.at[callee] == node || p.at[callee] < 0 && p.cpu[callee] <= p.free[node] {
			count++
		}
	}
	return float64(count) / float64(len(p.calls[caller]))
}

// exhaustive is optimum by trying everything.
func (p zoneProblem) exhaustive() float64 {
	s, best := p.unplaced(), -1.0
	var place func(service int)
	place = func(service int) {
		if service == len(s.cpu) {
			best = max(best, s.bound())
			return
		}
		for node := range s.free {
			if s.cpu[service] <= s.free[node] {
				s.move(service, node)
				place(service + 1)
				s.move(service, -1)
			}
		}
	}
	place(0)
	return best
}

func TestOptimum(t *testing.T) {
	t.Parallel()
	chain := [][]int{{1}, {2}, nil} // front calls cart, which calls db
	for _, tt := range []struct {
		name string
		free []int64
		want float64
	}{
		{"room for all on one node", []int64{100, 300}, 2},
		{"room for two on a node: one of two calls", []int64{200, 200}, 1},
		{"room for one", []int64{100, 100, 100}, 0},
		{"no room", []int64{100, 100}, -1},
	} {
		if got := (zoneProblem{free: tt.free, cpu: []int64{100, 100, 100}, calls: chain}).optimum(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := zoneProblem{free: make([]int64, 3), cpu: make([]int64, 5), calls: make([][]int, 5)}
		for i := range p.free {
			p.free[i] = random.Int64N(6)
		}
		for i := range p.cpu {
			p.cpu[i] = random.Int64N(4)
			for callee := range p.cpu {
				if callee != i && random.IntN(3) == 0 {
					p.calls[i] = append(p.calls[i], callee)
				}
			}
		}
		if got, want := p.optimum(), p.exhaustive(); math.Abs(got-want) > 1e-9 {
			t.Errorf("optimum() of %+v = %v, and of all placements %v", p, got, want)
		}
	}
}
