// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package candidates

import fwk "k8s.io/kube-scheduler/framework"

// Order turns scores into an order of 0 to 100 points: the best score has 100, each next
// distinct one a point less, and what would be below 0 has 0. Equal scores stay equal, and
// among the best hundred no two are merged; stretching the range would merge the best
// ones where a few bad ones are far off.
//
// The zero value is ready for Add. It is made of arrays, so that thousands of scores
// allocate nothing.
type Order struct {
	// best are the best scores that occur, each once, the best first.
	best  [fwk.MaxScore]int64
	count int
	// remembered are scores that were added lately: thousands of nodes have few different
	// ones, and to find each in best takes longer than all the rest.
	remembered [1 << rememberedBits]rememberedScore
}

type rememberedScore struct {
	score int64
	added bool
	// points are one more than the points; 0 as long as they are not known.
	points uint8
}

const rememberedBits = 7

// NormalizeScores turns the scores of nodes into an order of 0 to 100 points.
func NormalizeScores(scores fwk.NodeScoreList) {
	var order Order
	for i := range scores {
		order.Add(scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = order.Points(scores[i].Score)
	}
}

// slot returns where the score is remembered, if it is.
func (o *Order) slot(score int64) *rememberedScore {
	const golden = 0x9e3779b97f4a7c15                               // spreads neighbours (Knuth, multiplicative hashing)
	return &o.remembered[uint64(score)*golden>>(64-rememberedBits)] //nolint:gosec // a hash
}

// find returns where the score is, or would be.
func (o *Order) find(score int64) (int, bool) {
	// Written out, because it is called for every node.
	low, high := 0, o.count
	for low < high {
		middle := int(uint(low+high) >> 1) //nolint:gosec // not negative
		if o.best[middle] > score {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < o.count && o.best[low] == score
}

// Add takes note of a score.
func (o *Order) Add(score int64) {
	slot := o.slot(score)
	if slot.added && slot.score == score {
		return
	}
	if o.insert(score) {
		clear(o.remembered[:]) // others have other points now
	}
	*slot = rememberedScore{score: score, added: true}
}

// insert puts the score in best, and reports whether that changed.
func (o *Order) insert(score int64) bool {
	if o.count == len(o.best) && score <= o.best[o.count-1] {
		return false
	}
	at, found := o.find(score)
	if found {
		return false
	}
	if o.count < len(o.best) {
		o.count++
	}
	copy(o.best[at+1:o.count], o.best[at:])
	o.best[at] = score
	return true
}

// Points returns the points, 0 to fwk.MaxScore, of a score that was added.
func (o *Order) Points(score int64) int64 {
	slot := o.slot(score)
	if slot.score != score || slot.points == 0 {
		*slot = rememberedScore{score: score, points: uint8(o.points(score) + 1)} //nolint:gosec // at most 101
	}
	return int64(slot.points) - 1
}

func (o *Order) points(score int64) int64 {
	if o.count == 0 || score < o.best[o.count-1] {
		return 0
	}
	at, found := o.find(score)
	if !found {
		return 0
	}
	return fwk.MaxScore - int64(at)
}
