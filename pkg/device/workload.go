// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"fmt"
	"slices"
)

// maxTotalWeight bounds the sum of weights: times the thousandths of a node it
// stays far below the limits of int64, so that fragmentation is exact.
const maxTotalWeight = 1 << 40

// Shape is what a pod of the expected workload asks for.
type Shape struct {
	// CPUMilli is the CPU that it requests, in milli-CPU.
	CPUMilli int64
	// Devices is the number of devices; 0 is a pod without devices.
	Devices int
	// Milli and MemoryMiB are asked of each device, as in Ask.
	Milli, MemoryMiB int64
	// Models and MinMemoryMiB constrain the node, as in Request.
	Models       Models
	MinMemoryMiB int64
}

// Class is a shape and how often it is expected.
type Class struct {
	Shape
	// Weight is its frequency beside the other classes; it is positive.
	Weight int64
}

// Workload is a set of classes. It is read-only and safe to share.
type Workload struct {
	classes []Class
	weight  int64
	// podWeight is the weight of one pod that was seen, or 0; see Sampled.
	podWeight int64
	// pricing is nil if the workload is not priced.
	pricing *pricing
}

// NewWorkload checks the classes and puts them in a fixed order: the heaviest
// first, then the largest. Errors name the class by its index.
func NewWorkload(classes []Class) (*Workload, error) {
	w := &Workload{classes: slices.Clone(classes)}
	for i := range classes {
		if problem := classes[i].problem(); problem != "" {
			return nil, fmt.Errorf("class %d: %s", i, problem)
		}
		if w.weight += classes[i].Weight; w.weight > maxTotalWeight {
			return nil, fmt.Errorf("class %d: the weights up to here exceed %d", i, int64(maxTotalWeight))
		}
	}
	sortClasses(w.classes)
	return w, nil
}

// problem returns what is wrong with the class; empty if nothing is.
func (c *Class) problem() string {
	switch {
	case c.Weight <= 0 || c.Weight > maxTotalWeight:
		return fmt.Sprintf("weight %d must be from 1 to %d", c.Weight, int64(maxTotalWeight))
	case c.CPUMilli < 0:
		return fmt.Sprintf("CPU %dm must not be negative", c.CPUMilli)
	case c.Devices < 0 || c.Devices > MaxDevices:
		return fmt.Sprintf("%d devices must be from 0 to %d", c.Devices, MaxDevices)
	case c.Milli < 0 || c.Milli > MilliPerDevice:
		return fmt.Sprintf("%d thousandths of a device must be from 0 to %d", c.Milli, MilliPerDevice)
	case c.MemoryMiB < 0 || c.MemoryMiB > MaxMemoryMiB:
		return fmt.Sprintf("%d MiB of device memory must be from 0 to %d", c.MemoryMiB, MaxMemoryMiB)
	case (c.Devices == 0) != (c.Milli == 0 && c.MemoryMiB == 0):
		return fmt.Sprintf("%d devices with %d thousandths and %d MiB each: a class has both, or neither", c.Devices, c.Milli, c.MemoryMiB)
	case c.Devices > 1 && c.Milli != MilliPerDevice:
		return fmt.Sprintf("%d devices with %d thousandths each: more than one device means whole ones", c.Devices, c.Milli)
	default:
		return ""
	}
}

// Typical returns the heaviest classes that together reach percent of the whole
// weight: the "typical pods" of the fragmentation paper, which takes 95. It keeps
// the cost of scoring bounded by what is common. They are not priced.
func (w *Workload) Typical(percent int) *Workload {
	typical := &Workload{podWeight: w.podWeight}
	for i := range w.classes {
		if 100*typical.weight >= int64(percent)*w.weight {
			break
		}
		typical.classes = append(typical.classes, w.classes[i])
		typical.weight += w.classes[i].Weight
	}
	return typical
}

// Classes returns a copy of the classes, the heaviest first.
func (w *Workload) Classes() []Class {
	return slices.Clone(w.classes)
}

// sortClasses orders by weight, then CPU, compute, devices, models and memory,
// the larger first: the paper's order, made total.
func sortClasses(classes []Class) {
	slices.SortStableFunc(classes, func(a, b Class) int {
		return cmp.Or(
			cmp.Compare(b.Weight, a.Weight),
			cmp.Compare(b.CPUMilli, a.CPUMilli),
			cmp.Compare(b.Milli, a.Milli),
			cmp.Compare(b.Devices, a.Devices),
			cmp.Compare(b.Models.String(), a.Models.String()),
			cmp.Compare(b.MemoryMiB, a.MemoryMiB),
			cmp.Compare(b.MinMemoryMiB, a.MinMemoryMiB),
		)
	})
}

// ShapeOf returns the shape that stands for a pod. One ask is itself. Of several,
// whole devices at the pod's peak stand for the pod if every ask is whole, and
// otherwise the ask that takes most: a class has one share, and that is the one
// hardest to place.
func ShapeOf(d Demand) Shape {
	r := d.Request
	shape := Shape{CPUMilli: d.CPUMilli, Models: r.Models, MinMemoryMiB: r.MinMemoryMiB}
	largest, whole := -1, true
	for i := range r.Asks {
		a := &r.Asks[i]
		whole = whole && a.Milli == MilliPerDevice
		if largest < 0 || askLess(&r.Asks[largest], a) {
			largest = i
		}
	}
	if largest < 0 {
		return shape
	}
	a := &r.Asks[largest]
	shape.Devices, shape.Milli, shape.MemoryMiB = min(a.Devices, MaxDevices), a.Milli, a.MemoryMiB
	if whole {
		shape.Devices = int(min(r.AtPeak(1).Milli/MilliPerDevice, MaxDevices))
	}
	return shape
}

// askLess orders asks by how much they take.
func askLess(a, b *Ask) bool {
	if a.Devices != b.Devices {
		return a.Devices < b.Devices
	}
	return less(Share{a.Milli, a.MemoryMiB}, Share{b.Milli, b.MemoryMiB})
}
