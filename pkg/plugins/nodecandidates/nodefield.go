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

	// tries is how many nodes may still be tried.
	tries int
	// scores are the nodes' combined scores, and unfit for those that do not fit. It is
	// in the finest steps that there are: where one plugin ranks, its own scores.
	scores []int64
	// found is what above returns, and points has a list for each of rankings.
	found  []int32
	points [][]int32
}

// ranking is one plugin's ranking with the weight of its score.
type ranking struct {
	*candidates.Ranking
	weight int64
	// points are what NormalizeScore makes of all nodes that no plugin rejects. They are
	// there if more than one plugin ranks.
	points []int32
}

// unfit is the combined score of a node that a plugin rejects, or that was tried in vain.
const unfit int64 = -1

// triesPart is the part of the nodes that are tried at most, one of so many. To try one takes
// about as long as to filter it, and if all are tried in vain that comes on top.
const triesPart = 10

// reset forgets the last pod.
func (f *nodeField) reset(count int) {
	clear(f.rankings)
	f.count, f.rankings, f.known, f.others, f.tries = count, f.rankings[:0], 0, 0, max(count/triesPart, minNodes)
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
	if f.alone() {
		for i, score := range f.rankings[0].Scores {
			f.scores[i] = int64(score)
		}
		return
	}
	for i := range f.scores {
		f.scores[i] = unfit
		if f.passes(i) {
			f.scores[i] = 0
		}
	}
	for k := range f.rankings {
		r := &f.rankings[k]
		f.computePoints(k)
		for i := range f.scores {
			if f.scores[i] != unfit {
				f.scores[i] += r.weight * int64(r.points[i])
			}
		}
	}
}

// alone reports whether one plugin ranks, and its score counts.
func (f *nodeField) alone() bool { return len(f.rankings) == 1 && f.rankings[0].weight > 0 }

// computePoints fills in the points of a ranking.
func (f *nodeField) computePoints(k int) {
	r := &f.rankings[k]
	if !r.Ordinal {
		r.points = r.Scores
		return
	}
	for len(f.points) <= k {
		f.points = append(f.points, nil)
	}
	f.points[k] = slices.Grow(f.points[k][:0], f.count)[:f.count]
	r.points = f.points[k]
	var order candidates.Order
	for i, score := range r.Scores {
		if f.scores[i] != unfit {
			order.Add(int64(score))
		}
	}
	for i, score := range r.Scores {
		if f.scores[i] != unfit {
			r.points[i] = int32(order.Points(int64(score))) //nolint:gosec // at most 100
		}
	}
}

// maxLevels is how many levels of equal scores best looks for one after the other, in a
// pass over all nodes each, before it sorts what is left.
const maxLevels = 8

// best returns the best node that fits; -1 if none does of those that are tried before
// f.tries is 0. Of equal ones it tries those first that come first from offset on. What is
// not allowed, or tried in vain, is unfit from then on.
func (f *nodeField) best(offset int, allowed, fits func(i int) bool) int {
	f.combine()
	for range maxLevels {
		level := f.greatest()
		if len(level) == 0 {
			return -1
		}
		if i := f.try(fromOffset(level, offset), allowed, fits); i >= 0 || f.tries == 0 {
			return i
		}
	}
	rest := fromOffset(f.above(unfit), offset)
	slices.SortStableFunc(rest, func(a, b int32) int { return cmp.Compare(f.scores[b], f.scores[a]) })
	return f.try(rest, allowed, fits)
}

// try returns the first of the nodes that fits, -1 if none does of those that may be tried.
func (f *nodeField) try(nodes []int32, allowed, fits func(i int) bool) int {
	for _, i := range nodes {
		if allowed(int(i)) {
			if fits(int(i)) {
				return int(i)
			}
			if f.tries--; f.tries == 0 {
				return -1
			}
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
	least := unfit + 1
	if f.alone() {
		least = f.leastToWin(f.scores[best])
	}
	for i, score := range f.scores {
		if unfit < score && score < least && allowed(i) {
			leftOut = true
			break
		}
	}
	fit := f.above(least - 1)
	winners = fit[:0]
	for _, i := range fit {
		switch {
		case !allowed(int(i)):
		case !f.alone() && f.lead(best, int(i)) > f.others:
			leftOut = true
		default:
			winners = append(winners, i)
		}
	}
	winners = fromOffset(winners, offset)
	at := slices.Index(winners, int32(best)) //nolint:gosec // a number of nodes
	winners[0], winners[at] = winners[at], winners[0]
	return winners, leftOut
}

// bestOf returns so many of the winners, the best ones, and of equal ones the first.
func (f *nodeField) bestOf(winners []int32, count int) []int32 {
	// As a rule all are equal.
	if order := func(a, b int32) int { return cmp.Compare(f.scores[b], f.scores[a]) }; !slices.IsSortedFunc(winners, order) {
		slices.SortStableFunc(winners[1:], order) // the first is the one that fits
	}
	return winners[:count]
}

// leastToWin returns the least score with which a node may win against the best, whose score
// is given, where one plugin ranks. In an order a node that is not as good has at least a
// point less.
func (f *nodeField) leastToWin(best int64) int64 {
	r := &f.rankings[0]
	switch {
	case !r.Ordinal:
		return max(best-f.others/r.weight, unfit+1)
	case r.weight > f.others:
		return best
	default:
		return unfit + 1
	}
}

// lead returns the least by which node a leads node b in the weighted points of the ranking
// plugins, whichever of the nodes that they let pass fit in the end; negative if b may lead.
func (f *nodeField) lead(a, b int) int64 {
	var sum int64
	for k := range f.rankings {
		r := &f.rankings[k]
		sum += r.weight * r.lead(a, b)
	}
	return sum
}

// lead is the least by which a leads b in points.
//
// For an order that depends on which other nodes fit: a has at least a point more than b if
// its score is better and it is among the best hundred, and at most as many points less as
// there are distinct scores from its own to b's, among all that may fit.
func (r *ranking) lead(a, b int) int64 {
	lead := int64(r.points[a] - r.points[b])
	switch {
	case !r.Ordinal || r.Scores[a] == r.Scores[b]:
		return lead
	case lead > 0:
		return 1
	case r.points[a] == 0 && r.Scores[a] < r.Scores[b]:
		return -fwk.MaxScore
	default:
		return lead
	}
}
