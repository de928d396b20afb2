// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// candidate is a node that may be offered, and its raw score.
type candidate struct {
	node  fwk.NodeInfo
	score int64
}

// ranking keeps the maxTried best candidates of those that it is shown; of equal
// ones, those that come first.
type ranking struct {
	best []candidate
	// lowest is the index of the worst of best, if that is full.
	lowest int
	// bound is a score that none exceeds, and reached how many have it.
	bound   int64
	reached int
}

func newRanking(bound int64) *ranking {
	return &ranking{best: make([]candidate, 0, maxTried), bound: bound}
}

// takes reports whether a candidate with the score would be kept.
func (r *ranking) takes(score int64) bool {
	return len(r.best) < maxTried || score > r.best[r.lowest].score
}

// add shows it a candidate, and reports whether no other can be better than what
// it keeps.
func (r *ranking) add(c candidate) bool {
	switch {
	case !r.takes(c.score):
		return false
	case len(r.best) < maxTried:
		r.best = append(r.best, c)
	default:
		r.best[r.lowest] = c
	}
	if c.score >= r.bound {
		r.reached++
	}
	if len(r.best) == maxTried {
		r.lowest = 0
		for i := range r.best {
			if r.best[i].score < r.best[r.lowest].score {
				r.lowest = i
			}
		}
	}
	return r.reached == maxTried
}

// sorted returns what it keeps, the best first.
func (r *ranking) sorted() []candidate {
	slices.SortStableFunc(r.best, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	return r.best
}
