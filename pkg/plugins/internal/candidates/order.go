// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package candidates

import fwk "k8s.io/kube-scheduler/framework"

// Order turns scores into an order of 0 to 100 points: the best score has 100, each next
// distinct one a point less, and what would be below 0 has 0. Equal scores stay equal, and
// among the best hundred no two are merged; stretching the range would merge the best
// ones where a few bad ones are far off.
//
// The zero value is ready for Add. It is an array, so that thousands of scores allocate
// nothing.
type Order struct {
	// best are the best scores that occur, each once, the best first.
	best  [fwk.MaxScore]int64
	count int
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
	if o.count == len(o.best) && score <= o.best[o.count-1] {
		return
	}
	at, found := o.find(score)
	if found {
		return
	}
	if o.count < len(o.best) {
		o.count++
	}
	copy(o.best[at+1:o.count], o.best[at:])
	o.best[at] = score
}

// Points returns the points, 0 to fwk.MaxScore, of a score that was added.
func (o *Order) Points(score int64) int64 {
	if o.count == 0 || score < o.best[o.count-1] {
		return 0
	}
	at, found := o.find(score)
	if !found {
		return 0
	}
	return fwk.MaxScore - int64(at)
}
