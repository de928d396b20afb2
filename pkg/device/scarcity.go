// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"slices"
)

// Supply is how many devices of one kind the cluster has.
type Supply struct {
	// Model is in lower case, as Node.Model is kept.
	Model string
	// MemoryMiB is the memory of each device; 0 if it is not known.
	MemoryMiB int64
	// Devices is how many there are, at least 1.
	Devices int64
}

// scarcityModel is what of a workload is scarce on one cluster: see Workload.WithSupply.
type scarcityModel struct {
	supply []Supply
	// devices is the sum of supply, and accepted the part that each class of the
	// workload accepts.
	devices  float64
	accepted []float64
	// demand is the compute that is asked for, in weighted thousandths, and presumed
	// the part of it that is presumed for every kind of device.
	demand, presumed float64
	// packing is nil if it is not the same on every kind of device.
	packing *packingValues
}

// presumedPods is how many constrained pods are presumed for every kind of device
// beside those that were seen, if at least as many were seen at all.
const presumedPods = 10

// AsSample returns the workload as one whose weights count pods that were seen,
// podWeight for each: what is rare may not have been among them yet.
func (w *Workload) AsSample(podWeight int64) *Workload {
	sampled := *w
	sampled.podWeight, sampled.views = podWeight, newViews()
	return &sampled
}

// WithSupply returns the workload as one that knows what the cluster has. From it
// FragmentationGradient takes what is scarce: a class that accepts few of the
// devices counts more, and a kind of device that many constrained pods require
// has a price for those who could run elsewhere. It also computes what gaps are
// worth to packing. Without it nothing is scarce and every gap alike.
//
// The cost is that of a small linear programme, a millisecond or so: it is meant
// for once in a few hundred pods.
func (w *Workload) WithSupply(supply []Supply) *Workload {
	p := &scarcityModel{supply: slices.Clone(supply), accepted: make([]float64, len(w.classes))}
	supply = p.supply
	for i := range supply {
		supply[i].MemoryMiB = scoredMemory(supply[i].MemoryMiB)
		p.devices += float64(supply[i].Devices)
	}
	constrained, pods := 0.0, 0.0
	alike := true
	for i := range w.classes {
		c := &w.classes[i]
		if c.Devices == 0 {
			continue
		}
		for _, kind := range supply {
			if _, ok := c.on(kind.Model, kind.MemoryMiB); ok {
				p.accepted[i] += float64(kind.Devices)
			}
		}
		pods += float64(c.Weight)
		p.demand += c.demand()
		if p.accepted[i] < p.devices {
			constrained += float64(c.Weight)
		}
		alike = alike && c.MemoryMiB == 0
	}
	if w.podWeight > 0 && pods > 0 {
		presumed := min(presumedPods*float64(w.podWeight), constrained)
		p.presumed = presumed * p.demand / pods
	}
	if alike {
		p.packing = newPackingValues(w.sizes(0))
	}
	supplied := *w
	supplied.scarcityModel, supplied.views = p, newViews()
	return &supplied
}

// demand is the compute that the class asks for, times its weight.
func (c *Class) demand() float64 {
	return float64(c.Weight) * float64(c.Devices) * float64(max(1, c.Milli))
}

// on returns the share that the class takes of a device of this kind; false if it
// does not accept it, or is too large for it.
func (c *Class) on(model string, memoryMiB int64) (Share, bool) {
	container := ContainerRequest{Devices: c.Devices, Milli: c.Milli, MemoryMiB: c.MemoryMiB}
	share, ok := container.On(memoryMiB)
	return share, ok && c.MinMemoryMiB <= memoryMiB && c.Models.Match(model)
}

// sizes returns the shares of all classes that fit a device with so much memory; 0
// is good where no class asks for memory, and then they are the same everywhere. Who accepts which model is left out: shares that cannot meet are rare, and one
// table serves all.
func (w *Workload) sizes(memoryMiB int64) []packedSize {
	var sizes []packedSize
	for i := range w.classes {
		c := &w.classes[i]
		if c.Devices == 0 {
			continue
		}
		milli := c.Milli
		if memoryMiB > 0 {
			container := ContainerRequest{Milli: c.Milli, MemoryMiB: c.MemoryMiB}
			share, ok := container.On(memoryMiB)
			if !ok {
				continue
			}
			milli = packedMilli(share, memoryMiB)
		}
		sizes = append(sizes, packedSize{milli: milli, demand: float64(c.Weight) * float64(c.Devices)})
	}
	return sizes
}

// addValues adds what the workload is worth on nodes of one kind.
func (w *Workload) addValues(e *NodeWorkload, model string, memoryMiB int64) {
	total := 0.0
	for i := range w.classes {
		if w.classes[i].Devices > 0 {
			total += float64(w.classes[i].Weight)
		}
	}
	for i := range w.classes {
		c := &w.classes[i]
		if c.Devices == 0 {
			continue
		}
		share, ok := c.on(model, memoryMiB)
		if !ok {
			continue
		}
		weight := valueWeights * float64(c.Weight) / total
		if p := w.scarcityModel; p != nil && constants.BySupply && p.accepted[i] > 0 {
			weight *= math.Sqrt(p.devices / p.accepted[i])
		}
		e.addValue(valueClass{cpu: c.CPUMilli, share: share, devices: c.Devices, weight: int64(weight + 0.5)})
	}
	if p := w.scarcityModel; p != nil {
		e.scarcity = w.scarcityPrice(model, memoryMiB)
		if e.packing = p.packing; e.packing == nil {
			e.packing = newPackingValues(w.sizes(memoryMiB))
		}
	}
}

// addValue adds a class to those that nodes of a kind are worth something to.
// Classes that only differ in the kinds that they accept are one here.
func (e *NodeWorkload) addValue(c valueClass) {
	for i := range e.classes {
		known := &e.classes[i]
		if known.cpu == c.cpu && known.share == c.share && known.devices == c.devices {
			known.weight += c.weight
			return
		}
	}
	c.served = constants.TrustNum * int64(c.devices) * c.share.Milli
	c.per = constants.TrustDen * min(c.cpu, maxValueCPU)
	e.classes = append(e.classes, c)
}

// scarcityPrice returns the price of one device of a kind for pods that could run on
// others, in valueUnit: what constrained classes ask of it, each spread over all
// that it accepts, in proportion to what there is, if as much is asked for in
// total as the cluster has.
func (w *Workload) scarcityPrice(model string, memoryMiB int64) int64 {
	p := w.scarcityModel
	if p.demand == 0 {
		return 0
	}
	asked := 0.0
	for i := range w.classes {
		c := &w.classes[i]
		if c.Devices == 0 || p.accepted[i] >= p.devices {
			continue
		}
		if _, ok := c.on(model, memoryMiB); ok && p.accepted[i] > 0 {
			asked += c.demand() / p.accepted[i]
		}
	}
	for _, kind := range p.supply {
		if kind.Model == model && kind.MemoryMiB == memoryMiB && kind.Devices > 0 {
			asked += p.presumed / float64(kind.Devices)
		}
	}
	ratio := asked * p.devices / (p.demand + p.presumed*float64(len(p.supply)))
	return int64(min(ratio*float64(constants.Scarcity), float64(constants.MaxScarcity)))
}
