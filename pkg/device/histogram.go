// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"maps"
	"math"
)

const (
	// podWeight is what one pod adds to the weight of its shape. It leaves room
	// for the decay to work in whole numbers.
	podWeight = 1 << 20
	// decayEvery is after how many pods every weight loses 1/decayPart of itself.
	// A pod's weight is halved after about 700 further pods.
	decayEvery = 64
	decayPart  = 16
	// dueEvery is after how many pods it is looked whether the workload has changed
	// (maxDrift). If it is published anew, all remembered scores are worthless, and
	// scarcityModel has its cost.
	dueEvery = 128
	// maxShapes bounds the shapes that are remembered, and maxTypical those that
	// are expected. The cost of a score is proportional to what of them differs on
	// one kind of node, which are far fewer: many differ in the models they accept.
	maxShapes  = 512
	maxTypical = 128
	// typicalPercent is the part of the weight that is expected.
	typicalPercent = 98
)

// Histogram learns the expected workload: a bounded, decaying count of what pods
// ask for. The same shapes in the same order give the same workload. The zero
// value is empty and ready; it is not safe for concurrent use.
type Histogram struct {
	// shapes are the weights of what was counted.
	shapes map[Shape]int64
	count  int
	// published is what shapes was when Workload was called last.
	published map[Shape]int64
}

// Add counts one pod, and reports whether it is time to call Workload again: often
// while little is known, and later, every dueEvery pods, if the workload has changed
// since by more than maxDrift. A pod that asks for no device is not to be counted: its
// part is the same on every node.
func (h *Histogram) Add(shape Shape) (due bool) {
	shape.CPUMilli = coarse(shape.CPUMilli)
	if h.shapes == nil {
		h.shapes = map[Shape]int64{}
	}
	h.shapes[shape] += podWeight
	h.count++
	if len(h.shapes) > maxShapes {
		h.dropLightest(shape)
	}
	if h.count%decayEvery == 0 {
		h.decay()
	}
	if h.count < dueEvery {
		return h.count&(h.count-1) == 0
	}
	return h.count%dueEvery == 0 && h.drift() > maxDrift
}

// coarse rounds an amount of CPU up to three significant bits. Requests that
// differ by a little are the same shape: a histogram with a bar for each pod
// expects nothing.
func coarse(cpuMilli int64) int64 {
	step := int64(1)
	for cpuMilli/step >= 8 {
		step *= 2
	}
	return (cpuMilli + step - 1) / step * step
}

// decay makes room for what comes.
func (h *Histogram) decay() {
	for shape, weight := range h.shapes {
		weight -= weight / decayPart
		h.shapes[shape] = weight
		if weight < podWeight/decayEvery {
			delete(h.shapes, shape)
		}
	}
}

// dropLightest drops the shape with the least weight, but for the one that just
// came.
func (h *Histogram) dropLightest(keep Shape) {
	var lightest Shape
	least := int64(math.MaxInt64)
	for shape, weight := range h.shapes {
		if shape != keep && (weight < least || weight == least && compareShapes(shape, lightest) > 0) {
			lightest, least = shape, weight
		}
	}
	delete(h.shapes, lightest)
}

// Workload returns the commonest shapes, as sampled (Workload.AsSample), or nil if
// there are none.
func (h *Histogram) Workload() *Workload {
	h.published = maps.Clone(h.shapes)
	classes := make([]Class, 0, len(h.shapes))
	for shape, weight := range h.shapes {
		classes = append(classes, Class{Shape: shape, Weight: weight})
	}
	if len(classes) == 0 {
		return nil
	}
	all, err := NewWorkload(classes)
	if err != nil {
		return nil // shapes come from parsed requests, and weights are bounded
	}
	typical := all.Typical(typicalPercent)
	if len(typical.classes) > maxTypical {
		if typical, err = NewWorkload(typical.classes[:maxTypical]); err != nil {
			return nil
		}
	}
	return typical.AsSample(podWeight)
}
