// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"maps"
	"math"
	"slices"
)

// maxDrift is how far what pods ask for may be from what was published before it is worth
// publishing anew.
//
// The worth of a node is a mean over the expected pods. So by how much of its worth a
// placement can be rated otherwise is bounded by the part of the pods, or of the devices
// that they ask for, that is another: one in fifty. Scarcity is not bounded so, because a
// class that accepts few devices counts more there: in five orders of openb where gpuspec33
// follows default (DESIGN.md of GPUDevice, "When the pods change"), one in twenty cost 0.4
// points in the mean, and one in fifty 0.05. Where a few shapes keep coming in the same
// mix, what is counted differs by less. After a change of the mix dueEvery pods are an eighth
// of all weight, and it is published at once.
const maxDrift = 0.02

// drift returns by how much what was counted differs from what it was when Workload was
// called last, from 0 to 1 and a little above: the larger of the part of all pods that have
// another shape, and the part of all compute that is asked for by another, each with the
// change of what is presumed for constrained pods (Workload.AsSample), which counts less the
// more pods were seen.
//
// The sums are taken in a fixed order: the same pods give the same number.
func (h *Histogram) drift() float64 {
	was, is := mix(h.published), mix(h.shapes)
	if was.pods == 0 {
		return 1
	}
	all := maps.Clone(h.published)
	maps.Copy(all, h.shapes)
	pods, demand := 0.0, 0.0
	for _, shape := range slices.SortedFunc(maps.Keys(all), compareShapes) {
		a, b := amountOf(shape, h.published[shape]), amountOf(shape, h.shapes[shape])
		pods += math.Abs(a.pods/was.pods - b.pods/is.pods)
		demand += math.Abs(a.demand/was.demand - b.demand/is.demand)
	}
	// Of two mixes each part that one has more of, the other has more elsewhere.
	return max(pods, demand)/2 + presumedPods*math.Abs(1/was.pods-1/is.pods)
}

// totals are the pods that were counted, of the newest weight each, and what compute they
// ask for.
type totals struct{ pods, demand float64 }

// mix adds up shapes. Every pod asks for devices, so both sums are positive if there is one.
func mix(shapes map[Shape]int64) totals {
	var t totals
	for _, shape := range slices.SortedFunc(maps.Keys(shapes), compareShapes) {
		amount := amountOf(shape, shapes[shape])
		t.pods += amount.pods
		t.demand += amount.demand
	}
	return t
}

// amountOf is what a shape of that weight comes to.
func amountOf(shape Shape, weight int64) totals {
	class := Class{Shape: shape, Weight: weight}
	return totals{pods: float64(weight) / podWeight, demand: class.demand() / podWeight}
}
