// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

func TestHistogramForgets(t *testing.T) {
	share := func(milli int64) Shape { return Shape{Devices: 1, Milli: milli} }
	h := &Histogram{}
	for range 100 {
		h.Add(share(100))
	}
	for i := range 3000 {
		h.Add(share(200))
		if i == 700 {
			// Half of what 100 pods weighed, or less.
			if weight := h.shapes[share(100)]; weight > 50*podWeight || weight < 20*podWeight {
				t.Errorf("after 700 further pods the weight is %d pods", weight/podWeight)
			}
		}
	}
	if classes := h.Workload().Classes(); len(classes) != 1 || classes[0].Milli != 200 {
		t.Errorf("want only what pods ask for now, got %v", classes)
	}
	for i := range int64(5000) {
		h.Add(share(1 + i%999))
		if len(h.shapes) > maxShapes {
			t.Fatalf("%d shapes are remembered", len(h.shapes))
		}
	}
	if got := len(h.Workload().Classes()); got > maxTypical {
		t.Errorf("%d shapes are expected", got)
	}
}

// Requests that differ by little are one shape.
func TestCoarse(t *testing.T) {
	for cpu, want := range map[int64]int64{0: 0, 1: 1, 7: 7, 8: 8, 9: 10, 100: 112, 1000: 1024, 3152: 3584, 11300: 12288} {
		if got := coarse(cpu); got != want {
			t.Errorf("%d: want %d, got %d", cpu, want, got)
		}
	}
}
