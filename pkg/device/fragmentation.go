// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Cause says how a node stands to a class of the expected workload, and with it
// why idle devices are useless to the class. The names are those of the
// fragmentation paper (FGD, ATC'23).
type Cause uint8

// The causes. Only Q3Satisfied is not fragmentation.
const (
	// Q1LackBoth is a node without room on its devices and without the CPU.
	Q1LackBoth Cause = iota
	// Q2LackGPU is a node without room on its devices; also the idle part of
	// devices that are too full for the class, on a node that has others.
	Q2LackGPU
	// Q3Satisfied is a node that could take the class: idle, and of use.
	Q3Satisfied
	// Q4LackCPU is a node with room on its devices and without the CPU.
	Q4LackCPU
	// XLSatisfied is a node that could take a class that asks for no device.
	XLSatisfied
	// XRLackCPU is a node without the CPU for a class that asks for no device.
	XRLackCPU
	// NoAccess is a node that the class does not accept.
	NoAccess
	// Causes is how many there are.
	Causes = int(iota)
)

// String returns the cause as a metric label.
func (c Cause) String() string {
	names := [Causes]string{"Q1LackBoth", "Q2LackGPU", "Q3Satisfied", "Q4LackCPU", "XLSatisfied", "XRLackCPU", "NoAccess"}
	if int(c) >= Causes {
		return "Unknown"
	}
	return names[c]
}

// Fragmentation is the idle compute of a node by what it is to the expected
// workload, in thousandths of a device: the mean over the classes, by weight. The
// sum of all entries is what is idle.
type Fragmentation [Causes]float64

// Total returns the fragmented part: everything that is not Q3Satisfied.
func (f *Fragmentation) Total() float64 {
	sum := 0.0
	for cause, milli := range f {
		if Cause(cause) != Q3Satisfied { //nolint:gosec // an index below Causes
			sum += milli
		}
	}
	return sum
}

// Fragmentation measures a node with cpuMilli of free CPU. For each class, in
// this order:
//
//	no device wanted, CPU is enough     all idle compute is XLSatisfied
//	no device wanted, CPU is not        all is XRLackCPU
//	node excluded by the class          all is NoAccess
//	enough devices with room, CPU too   devices without room are Q2LackGPU,
//	                                    the others Q3Satisfied
//	enough devices with room, no CPU    all is Q4LackCPU
//	not enough devices, CPU is enough   all is Q2LackGPU
//	neither                             all is Q1LackBoth
//
// The paper knows compute alone. Here a device has room for a class if it has
// both the compute and the memory; what is counted stays idle compute. Idle
// compute on a device whose memory is used up thus counts as what it is, useless.
// With memory in proportion to compute, as it is derived, the measure is the
// paper's. Cordoned devices have nothing idle.
func (e *NodeWorkload) Fragmentation(s *Usage, cpuMilli int64) Fragmentation {
	var f Fragmentation
	if e.weight > 0 {
		for cause, sum := range e.weighted(s, cpuMilli) {
			f[cause] = float64(sum) / float64(e.weight)
		}
	}
	return f
}

// weighted is Fragmentation times the weight of the workload.
func (e *NodeWorkload) weighted(s *Usage, cpuMilli int64) (sums [Causes]int64) {
	idle := s.IdleMilli()
	for i := range e.noDevice {
		c := &e.noDevice[i]
		if cpuMilli >= c.cpu {
			sums[XLSatisfied] += c.weight * idle
		} else {
			sums[XRLackCPU] += c.weight * idle
		}
	}
	sums[NoAccess] = e.noAccess * idle
	for i := range e.placeable {
		c := &e.placeable[i]
		room, tooFull := c.room(s)
		switch fit, cpu := room >= c.devices, cpuMilli >= c.cpu; {
		case fit && cpu:
			sums[Q2LackGPU] += c.weight * tooFull
			sums[Q3Satisfied] += c.weight * (idle - tooFull)
		case fit:
			sums[Q4LackCPU] += c.weight * idle
		case cpu:
			sums[Q2LackGPU] += c.weight * idle
		default:
			sums[Q1LackBoth] += c.weight * idle
		}
	}
	return sums
}

// room returns how many devices have room for the class, and how much is idle on
// those that have none.
func (c *resolvedClass) room(s *Usage) (devices int, tooFull int64) {
	for i := range s.devices {
		switch {
		case s.cordoned.Has(i):
		case s.free[i].covers(c.share):
			devices++
		default:
			tooFull += max(0, s.free[i].Milli)
		}
	}
	return devices, tooFull
}

// Weight returns the weight of all classes.
func (e *NodeWorkload) Weight() int64 { return e.weight }

// FragmentedWeighted returns the fragmented idle compute of a node times the weight of
// the workload. It is an exact integer, so the difference of two amounts is exact, and
// zero where nothing changed.
func (e *NodeWorkload) FragmentedWeighted(s *Usage, cpuMilli int64) int64 {
	total := int64(0)
	for cause, sum := range e.weighted(s, cpuMilli) {
		if Cause(cause) != Q3Satisfied { //nolint:gosec // an index below Causes
			total += sum
		}
	}
	return total
}
