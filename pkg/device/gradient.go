// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "math"

// Gradient returns by how much the fragmented idle compute of a node shrinks when
// its devices go from one state to another and its free CPU from cpuBefore to
// cpuAfter, in thousandths of a device. Growth is negative.
func (e *Expected) Gradient(before, after *State, cpuBefore, cpuAfter int64) float64 {
	if e == nil || e.weight == 0 {
		return 0
	}
	return float64(e.amount(before, cpuBefore)-e.amount(after, cpuAfter)) / float64(e.weight)
}

// gradients sets out, for each candidate, to what Gradient would be if the share
// were taken from that device alone, times the weight of the workload. Every
// candidate must have room.
//
// One class is looked at once for all candidates: taking from one device changes
// whether that device has room, and what is idle there, and nothing else. That
// makes the cost classes * (devices + candidates) instead of their product.
func (e *Expected) gradients(s *State, candidates Set, share Share, cpuBefore, cpuAfter int64, out *[MaxDevices]int64) {
	idle := s.IdleMilli()
	idleAfter := idle - share.Milli
	for d := range candidates.All() {
		out[d] = e.indifferent * share.Milli
	}
	for i := range e.placeable {
		c := &e.placeable[i]
		if cpuBefore < c.cpu {
			// Useless before and after.
			for rest := candidates; rest != 0; rest &= rest - 1 {
				out[rest.Lowest()] += c.weight * share.Milli
			}
			continue
		}
		devices, tooFull := c.room(s)
		before := idle
		if devices >= c.devices {
			before = tooFull
		}
		cpu := cpuAfter >= c.cpu
		for rest := candidates; rest != 0; rest &= rest - 1 {
			d := rest.Lowest()
			had := s.free[d].covers(c.share)
			left := s.free[d].minus(share)
			has := left.covers(c.share)

			devicesAfter, tooFullAfter := devices, tooFull
			switch {
			case had && !has:
				devicesAfter--
				tooFullAfter += left.Milli
			case !had:
				tooFullAfter -= share.Milli
			}
			after := idleAfter
			if cpu && devicesAfter >= c.devices {
				after = tooFullAfter
			}
			out[d] += c.weight * (before - after)
		}
	}
}

// points turns a gradient times the weight into the paper's score: 100 times the
// sigmoid of the gradient in devices, cut to whole points. 50 is no change. The
// cut is part of the method: nodes that differ by little are left to the
// tie-break, which packs, and that places more than the full precision does.
func (e *Expected) points(weighted int64) int64 {
	x := float64(weighted) / float64(e.weight) / MilliPerDevice
	return int64(MaxScore / (1 + math.Exp(-x)))
}
