// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "math"

// valueUnit is one device in the unit of what FragmentationGradient computes
// with. It resolves best-fit's share of a score to about 0.1 CPU.
const valueUnit = 1 << 18

// valueWeights is the sum that the weights of a workload are brought to before
// scarcity changes them.
const valueWeights = 1 << 20

// perDevice divides an amount in weighted thousandths to give valueUnit.
const perDevice = valueWeights * MilliPerDevice / valueUnit

// maxValueCPU bounds the CPU that is multiplied, so that no product overflows:
// 2^40 milli-CPU is a billion CPUs.
const maxValueCPU = 1 << 40

// constants are those of FragmentationGradient. How they were chosen is told in the
// plugin's DESIGN.md; TestOpenbStudy alone changes them.
var constants = tuning{
	Packing:  10,
	TrustNum: 5, TrustDen: 3,
	Leftover: valueUnit * 3 / 50,
	Scarcity: valueUnit, MaxScarcity: 2 * valueUnit,
	BySupply: true,
}

// tuning is a choice of constants.
type tuning struct {
	// Packing is what a device's worth to packing counts, beside 1 for its use to
	// the expected classes.
	Packing int64
	// trust is for how much of the devices the CPU of a node is good, as a ratio to
	// the case that only pods of one class come.
	TrustNum, TrustDen int64
	// Leftover is what a node with everything free counts above a full one, in
	// valueUnit.
	Leftover int64
	// Scarcity is the price of a device for which as much constrained demand is
	// expected as there is of its kind, in valueUnit, and MaxScarcity the most that
	// it can be.
	Scarcity, MaxScarcity int64
	// BySupply is whether a class counts the more the less of the cluster it
	// accepts.
	BySupply bool
}

// valueClass is one class of the expected workload with its share resolved.
type valueClass struct {
	cpu     int64
	share   Share
	devices int
	weight  int64
	// served and per say how much compute such pods use for the CPU of a node:
	// cpu * served / per thousandths. per is 0 if they need no CPU.
	served, per int64
}

// useful returns how many devices have room for the class, and how much is free
// on those.
func (c *valueClass) useful(s *Usage) (devices int, milli int64) {
	for i := range s.devices {
		if s.free[i].covers(c.share) && !s.cordoned.Has(i) {
			devices++
			milli += s.free[i].Milli
		}
	}
	return devices, milli
}

// servedBy returns how much compute the CPU of a node can serve, in thousandths.
func (c *valueClass) servedBy(cpuMilli int64) int64 {
	switch {
	case cpuMilli < c.cpu:
		return 0
	case c.per == 0:
		return math.MaxInt64
	default:
		return min(cpuMilli, maxValueCPU) * c.served / c.per
	}
}

// value returns what a node is worth to the class, in thousandths: what is free on
// the devices with room for it, and no more than its CPU can serve. To a class that
// needs several devices, those beside the last complete set are worth nothing: seven
// free devices serve one pod of four, and so do four.
func (c *valueClass) value(devices int, milli, served int64) int64 {
	if c.devices > 1 {
		milli = int64(devices-devices%c.devices) * MilliPerDevice
	}
	return min(milli, served)
}

// value returns what a node is worth to the classes, in weighted thousandths.
func (e *NodeWorkload) value(s *Usage, cpuMilli int64) int64 {
	var sum int64
	for i := range e.classes {
		c := &e.classes[i]
		if cpuMilli < c.cpu {
			continue
		}
		devices, milli := c.useful(s)
		sum += c.weight * c.value(devices, milli, c.servedBy(cpuMilli))
	}
	return sum
}

// shareLosses sets out, for each candidate, to what the node would be worth less
// if the share were taken from that device, in valueUnit. Every candidate must
// have room.
//
// One class is looked at once for all candidates: taking from one device changes
// whether that device has room, and what is free there, and nothing else. That
// makes the cost classes * (devices + candidates) instead of their product.
func (e *NodeWorkload) shareLosses(s *Usage, candidates Set, share Share, cpuBefore, cpuAfter int64, out *[MaxDevices]int64) {
	for rest := candidates; rest != 0; rest &= rest - 1 {
		out[rest.Lowest()] = 0
	}
	for i := range e.classes {
		c := &e.classes[i]
		if cpuBefore < c.cpu {
			continue
		}
		devices, milli := c.useful(s)
		before := c.value(devices, milli, c.servedBy(cpuBefore))
		if before == 0 {
			continue
		}
		served := c.servedBy(cpuAfter)
		for rest := candidates; rest != 0; rest &= rest - 1 {
			d := rest.Lowest()
			devicesAfter, milliAfter := devices, milli
			if s.free[d].covers(c.share) {
				if s.free[d].minus(share).covers(c.share) {
					milliAfter -= share.Milli
				} else {
					devicesAfter--
					milliAfter -= s.free[d].Milli
				}
			}
			out[d] += c.weight * (before - c.value(devicesAfter, milliAfter, served))
		}
	}
	for rest := candidates; rest != 0; rest &= rest - 1 {
		d := rest.Lowest()
		out[d] = out[d]/perDevice + e.packingLoss(s, d, s.free[d].minus(share))
	}
}

// loss returns what a node is worth less after its devices and CPU went from one
// state to another, in valueUnit.
func (e *NodeWorkload) loss(before, after *Usage, cpuBefore, cpuAfter int64) int64 {
	loss := (e.value(before, cpuBefore) - e.value(after, cpuAfter)) / perDevice
	for d := range before.devices {
		if before.free[d] != after.free[d] {
			loss += e.packingLoss(before, d, after.free[d])
		}
	}
	return loss
}

// packingLoss returns what device d is worth less to packing with left of it, in
// valueUnit, by the weight of packing.
func (e *NodeWorkload) packingLoss(s *Usage, d int, left Share) int64 {
	if e.packing == nil || s.cordoned.Has(d) {
		return 0
	}
	return constants.Packing * (e.packing[gap(s.free[d], s.capacity.MemoryMiB)] - e.packing[gap(left, s.capacity.MemoryMiB)])
}

// gap returns what is free of a device as one number, in thousandths: what runs
// out first, compute or memory.
func gap(free Share, memoryMiB int64) int64 {
	milli := free.Milli
	if memoryMiB > 0 {
		milli = min(milli, free.MemoryMiB*MilliPerDevice/memoryMiB)
	}
	return min(max(0, milli), MilliPerDevice)
}

// packedMilli is gap for what a share takes: what it takes most of.
func packedMilli(share Share, memoryMiB int64) int64 {
	milli := share.Milli
	if memoryMiB > 0 {
		milli = max(milli, (share.MemoryMiB*MilliPerDevice+memoryMiB-1)/memoryMiB)
	}
	return min(max(1, milli), MilliPerDevice)
}
