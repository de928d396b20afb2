// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// nodeField is what the plugins that rank nodes know of all nodes for one pod. Nodes are
// numbers: their positions in the list of the cycle. It is used again for the next pod,
// so that ranking thousands of nodes allocates nothing.
type nodeField struct {
	count    int
	rankings []ranking
	// known is the sum of the weights of the plugins whose scores are known: of rankings,
	// and of those that score no node for the pod.
	known int64
	// others is the most by which the scores of all other plugins together can differ
	// between two nodes.
	others int64

	// scores are the nodes' combined scores, and unfit for those that do not fit. It is
	// in the finest steps that there are: where one plugin ranks, its own scores.
	scores []int64
	found  []int32
}

// ranking is one plugin's ranking with the weight of its score.
type ranking struct {
	*candidates.Ranking
	weight int64
	// order is what NormalizeScore makes of all nodes that fit, if Ordinal and more than
	// one plugin ranks.
	order candidates.Order
}

// unfit is the combined score of a node that a plugin rejects, or that was tried in vain.
const unfit int64 = -1

// reset forgets the last pod.
func (f *nodeField) reset(count int) {
	clear(f.rankings)
	f.count, f.rankings, f.known, f.others = count, f.rankings[:0], 0, 0
}

// add adds what a plugin has written. A ranking of other nodes than the cycle's is taken
// for none.
func (f *nodeField) add(w candidates.Written, weight int64) {
	if w.Rank == nil {
		f.known += weight
		return
	}
	if r := w.Rank(); r != nil && len(r.Scores) == f.count {
		f.known += weight
		f.rankings = append(f.rankings, ranking{Ranking: r, weight: weight})
	}
}

// anyFits reports whether there is a ranking and a node that no plugin rejects.
func (f *nodeField) anyFits() bool {
	if len(f.rankings) == 0 {
		return false
	}
	for i := range f.count {
		if f.passes(i) {
			return true
		}
	}
	return false
}

// passes reports whether no plugin rejects the node.
func (f *nodeField) passes(i int) bool {
	for k := range f.rankings {
		if f.rankings[k].Scores[i] == candidates.Unfit {
			return false
		}
	}
	return true
}

// combine computes the combined scores.
func (f *nodeField) combine() {
	f.scores = slices.Grow(f.scores[:0], f.count)[:f.count]
	if len(f.rankings) == 1 && f.rankings[0].weight > 0 {
		for i, score := range f.rankings[0].Scores {
			f.scores[i] = int64(score)
		}
		return
	}
	for i := range f.count {
		f.scores[i] = unfit
		if f.passes(i) {
			f.scores[i] = 0
			for k := range f.rankings {
				if r := &f.rankings[k]; r.Ordinal {
					r.order.Add(int64(r.Scores[i]))
				}
			}
		}
	}
	for i := range f.count {
		if f.scores[i] == unfit {
			continue
		}
		for k := range f.rankings {
			r := &f.rankings[k]
			f.scores[i] += r.weight * r.points(i)
		}
	}
}

// points are the points of a node among all that fit.
func (r *ranking) points(i int) int64 {
	if r.Ordinal {
		return r.order.Points(int64(r.Scores[i]))
	}
	return int64(r.Scores[i])
}

// maxLevels is how many levels of equal scores best looks for one after the other, in a
// pass over all nodes each, before it sorts what is left.
const maxLevels = 8

// best returns the best node that fits; -1 if none does. Of equal ones it tries those
// first that come first from offset on. What it tries in vain is unfit from then on.
func (f *nodeField) best(offset int, fits func(i int) bool) int {
	f.combine()
	for range maxLevels {
		level := f.greatest()
		if len(level) == 0 {
			return -1
		}
		if i := f.try(fromOffset(level, offset), fits); i >= 0 {
			return i
		}
	}
	rest := fromOffset(f.above(unfit), offset)
	slices.SortStableFunc(rest, func(a, b int32) int { return cmp.Compare(f.scores[b], f.scores[a]) })
	return f.try(rest, fits)
}

// try returns the first of the nodes that fits, -1 if none does.
func (f *nodeField) try(nodes []int32, fits func(i int) bool) int {
	for _, i := range nodes {
		if fits(int(i)) {
			return int(i)
		}
		f.scores[i] = unfit
	}
	return -1
}

// greatest returns the nodes of the greatest score, none if all are unfit. It is valid until
// the next call, and that of above.
func (f *nodeField) greatest() []int32 {
	greatest := slices.Max(f.scores)
	if greatest == unfit {
		return nil
	}
	return f.above(greatest - 1)
}

// above returns the nodes with a greater score, in their order. It is valid until the next
// call.
func (f *nodeField) above(score int64) []int32 {
	f.found = f.found[:0]
	for i, s := range f.scores {
		if s > score {
			f.found = append(f.found, int32(i)) //nolint:gosec // a number of nodes
		}
	}
	return f.found
}

// fromOffset turns the nodes, which are in order, round to those from offset on.
func fromOffset(nodes []int32, offset int) []int32 {
	at, _ := slices.BinarySearch(nodes, int32(offset)) //nolint:gosec // a number of nodes
	slices.Reverse(nodes[:at])
	slices.Reverse(nodes[at:])
	slices.Reverse(nodes)
	return nodes
}

// winners returns the nodes that may be the best of the profile, best itself first and the
// others from offset on, and whether any that may fit was left out. best is the best by
// combined score that fits; a node that was tried in vain or is not allowed cannot win.
// They are valid until the next call.
//
// A node is left out if best leads it by more points of the ranking plugins than all other
// plugins together can make up for.
func (f *nodeField) winners(best, offset int, allowed func(i int) bool) (winners []int32, leftOut bool) {
	least, compares := f.leastScore(best)
	winners = f.found[:0]
	for i, score := range f.scores {
		switch {
		case score == unfit:
		case score < least || compares && f.lead(best, i) > f.others:
			leftOut = leftOut || allowed(i)
		case allowed(i):
			winners = append(winners, int32(i))
		}
	}
	f.found = winners
	winners = fromOffset(winners, offset)
	at := slices.Index(winners, int32(best)) //nolint:gosec // a number of nodes
	winners[0], winners[at] = winners[at], winners[0]
	return winners, leftOut
}

// leastScore returns the combined score below which best leads a node by too much, and
// whether those at or above it have to be compared with best one by one.
func (f *nodeField) leastScore(best int) (least int64, compares bool) {
	if len(f.rankings) != 1 || f.rankings[0].weight == 0 {
		return 0, true
	}
	r := &f.rankings[0]
	switch {
	case !r.Ordinal:
		return f.scores[best] - f.others/r.weight, false
	case r.weight > f.others:
		return f.scores[best], false // each next score is a point less
	}
	return 0, false
}

// lead returns the least by which node a leads node b in the weighted points of the ranking
// plugins, whichever of the nodes that they let pass fit in the end; negative if b may lead.
func (f *nodeField) lead(a, b int) int64 {
	var sum int64
	for k := range f.rankings {
		r := &f.rankings[k]
		sum += r.weight * r.lead(a, b, len(f.rankings) == 1)
	}
	return sum
}

// lead is the least by which a leads b in points. alone is whether no other plugin ranks:
// then a is the best of its order.
//
// For an order that depends on which other nodes fit: a has at least a point more than b if
// its score is better and it is among the best hundred, and at most as many points less as
// there are distinct scores from its own to b's, among all that may fit.
func (r *ranking) lead(a, b int, alone bool) int64 {
	own, other := int64(r.Scores[a]), int64(r.Scores[b])
	switch {
	case !r.Ordinal:
		return own - other
	case own == other:
		return 0
	case alone:
		return 1
	case own > other:
		return min(r.order.Points(own), 1)
	case r.order.Points(own) == 0:
		return -fwk.MaxNodeScore
	default:
		return r.order.Points(own) - r.order.Points(other)
	}
}
