// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
)

// maxLoad is the largest load in percent that a series goes to; what comes at a
// higher one counts there.
const maxLoad = 10_000

// Point is a state of the cluster, in percent.
type Point struct {
	// Allocated and Fragmented are parts of all devices.
	Allocated, Fragmented float64
	// Ratio is the fragmented part of what is idle.
	Ratio float64
}

// series averages the states after each arrival by the load that has arrived,
// rounded to a whole percent of the devices: the paper's curves.
type series struct {
	// start is the state before the first arrival.
	start  Point
	sums   []Point
	counts []int
}

// add counts the state after one arrival.
func (s *series) add(load float64, p Point) {
	x := int(math.Round(min(max(load, 0), maxLoad)))
	for len(s.sums) <= x {
		s.sums = append(s.sums, Point{})
		s.counts = append(s.counts, 0)
	}
	s.sums[x].Allocated += p.Allocated
	s.sums[x].Fragmented += p.Fragmented
	s.sums[x].Ratio += p.Ratio
	s.counts[x]++
}

// points returns the mean at 0, 1, 2 … percent. Where nothing arrived it is, as
// the paper has it, the mean of one percent around, and where nothing arrived
// there either the state is still the last one.
func (s *series) points() []Point {
	points := make([]Point, len(s.sums))
	for x := range s.sums {
		var sum Point
		n := 0
		add := func(from, to int) {
			for i := max(0, from); i <= min(to, len(s.sums)-1); i++ {
				sum.Allocated += s.sums[i].Allocated
				sum.Fragmented += s.sums[i].Fragmented
				sum.Ratio += s.sums[i].Ratio
				n += s.counts[i]
			}
		}
		if add(x, x); n == 0 {
			add(x-1, x+1)
		}
		switch {
		case n > 0:
			points[x] = Point{Allocated: sum.Allocated / float64(n), Fragmented: sum.Fragmented / float64(n), Ratio: sum.Ratio / float64(n)}
		case x > 0:
			points[x] = points[x-1]
		default:
			points[x] = s.start
		}
	}
	return points
}
