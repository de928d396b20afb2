// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"math/rand/v2"
	"testing"
)

// addAll counts pods of the shapes in turn and publishes what is due; it returns how often.
func addAll(h *Histogram, pods int, shapes ...Shape) (published int) {
	for i := range pods {
		if h.Add(shapes[i%len(shapes)]) {
			h.Workload()
			published++
		}
	}
	return published
}

func TestHistogramPublishesWhatChanged(t *testing.T) {
	small, large, whole := Shape{Devices: 1, Milli: 100}, Shape{Devices: 1, Milli: 900}, Shape{Devices: 8, Milli: 1000}
	h := &Histogram{}
	if got := addAll(h, 4096, small, large); got > 16 {
		t.Errorf("two shapes in turn were published %d times while they were learned", got)
	}
	if got := addAll(h, 4096, small, large); got != 0 {
		t.Errorf("what stayed the same was published %d times", got)
	}
	if got := addAll(h, dueEvery, large); got != 1 {
		t.Errorf("another mix was published %d times within %d pods, want once", got, dueEvery)
	}
	addAll(h, 4096, small, large)
	// One pod in 128 is no fiftieth of all pods, but of the devices.
	shapes := make([]Shape, dueEvery)
	for i := range shapes {
		shapes[i] = []Shape{small, large}[i%2]
	}
	shapes[7] = whole
	if got := addAll(h, 4*dueEvery, shapes...); got == 0 {
		t.Error("pods that ask for many devices were not published")
	}
}

// What was published is never further from what is counted than the bound, when it is looked
// at: in a random mix that changes. The same pods are published at the same time.
func TestDriftIsBounded(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		h, again := &Histogram{}, &Histogram{}
		published, kept := 0, 0
		for i := range 40 * dueEvery {
			shape := Shape{Devices: 1, Milli: 400}
			if random.IntN(5) < i/1000 {
				shape.Milli = 600
			}
			due := h.Add(shape)
			if due != again.Add(shape) {
				t.Fatalf("pod %d: due %v, and the other way with the same pods", i, due)
			}
			if due {
				h.Workload()
				again.Workload()
				published++
			}
			if (i+1)%dueEvery != 0 {
				continue
			}
			if !due {
				kept++
			}
			if got := distance(h); got > 2*maxDrift {
				t.Fatalf("pod %d: %.3f of the devices asked for are others than published", i, got)
			}
		}
		if published < 10 || kept < 5 {
			t.Errorf("published %d times, kept %d times: the mix shows little", published, kept)
		}
	}
}

// distance is the sum of the differences of all parts of the demand.
func distance(h *Histogram) float64 {
	parts := map[Shape]float64{}
	for sign, shapes := range map[float64]map[Shape]int64{1: h.shapes, -1: h.published} {
		var all int64
		for shape, weight := range shapes {
			all += weight * shape.Milli
		}
		for shape, weight := range shapes {
			parts[shape] += sign * float64(weight*shape.Milli) / float64(all)
		}
	}
	sum := 0.0
	for _, part := range parts {
		sum += math.Abs(part)
	}
	return sum
}
