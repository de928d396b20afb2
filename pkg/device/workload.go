// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
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
	// Milli and MemoryMiB are asked of each device, as in ContainerRequest.
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
	// scarcityModel is nil before WithSupply.
	scarcityModel *scarcityModel
	// views remembers what For computed. Its methods need no lock of the caller.
	views *workloadViews
}

// workloadViews is how the kinds of nodes that were asked about see a workload. A
// cluster has a handful.
type workloadViews struct {
	mu     sync.RWMutex
	byKind map[Supply]*NodeWorkload // without a number of devices
}

// For returns the workload as nodes like this one see it; nil if the workload is nil.
func (w *Workload) For(n *Node) *NodeWorkload {
	if w == nil {
		return nil
	}
	kind := Supply{Model: n.Model, MemoryMiB: n.MemoryMiB}
	w.views.mu.RLock()
	expected, ok := w.views.byKind[kind]
	w.views.mu.RUnlock()
	if ok {
		return expected
	}
	expected = w.On(kind.Model, kind.MemoryMiB)
	w.views.mu.Lock()
	defer w.views.mu.Unlock()
	w.views.byKind[kind] = expected
	return expected
}

func newViews() *workloadViews { return &workloadViews{byKind: map[Supply]*NodeWorkload{}} }

// NewWorkload checks the classes and puts them in a fixed order: the heaviest
// first, then the largest. Errors name the class by its index.
func NewWorkload(classes []Class) (*Workload, error) {
	w := &Workload{classes: slices.Clone(classes), views: newViews()}
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
		return fmt.Sprintf("%d devices with %d thousandths each: if there is more than one device, they must be whole", c.Devices, c.Milli)
	default:
		return ""
	}
}

// Typical returns the heaviest classes that together reach percent of the whole
// weight: the "typical pods" of the fragmentation paper, which takes 95. It keeps
// the cost of scoring bounded by what is common. The supply is not counted in.
func (w *Workload) Typical(percent int) *Workload {
	typical := &Workload{podWeight: w.podWeight, views: newViews()}
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
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), compareShapes(a.Shape, b.Shape))
	})
}

// compareShapes orders shapes, the larger first.
func compareShapes(a, b Shape) int {
	return cmp.Or(
		cmp.Compare(b.CPUMilli, a.CPUMilli),
		cmp.Compare(b.Milli, a.Milli),
		cmp.Compare(b.Devices, a.Devices),
		cmp.Compare(b.Models.String(), a.Models.String()),
		cmp.Compare(b.MemoryMiB, a.MemoryMiB),
		cmp.Compare(b.MinMemoryMiB, a.MinMemoryMiB),
	)
}

// ShapeOf returns the shape that stands for a pod. One container is itself. Of several,
// whole devices at the pod's peak stand for the pod if each asks for whole ones, and
// otherwise the container that takes most: a class has one share, and that is the one
// hardest to place.
func ShapeOf(d PodRequest) Shape {
	r := d.Request
	shape := Shape{CPUMilli: d.CPUMilli, Models: r.Models, MinMemoryMiB: r.MinMemoryMiB}
	largest, whole := -1, true
	for i := range r.Containers {
		a := &r.Containers[i]
		whole = whole && a.Milli == MilliPerDevice
		if largest < 0 || containerLess(&r.Containers[largest], a) {
			largest = i
		}
	}
	if largest < 0 {
		return shape
	}
	a := &r.Containers[largest]
	shape.Devices, shape.Milli, shape.MemoryMiB = min(a.Devices, MaxDevices), a.Milli, a.MemoryMiB
	if whole {
		shape.Devices = int(min(r.AtPeak(1).Milli/MilliPerDevice, MaxDevices))
	}
	return shape
}

// containerLess orders container requests by how much they take.
func containerLess(a, b *ContainerRequest) bool {
	if a.Devices != b.Devices {
		return a.Devices < b.Devices
	}
	return less(Share{a.Milli, a.MemoryMiB}, Share{b.Milli, b.MemoryMiB})
}

// NodeWorkload is a workload as nodes of one model and device memory see it: derived
// amounts are resolved, and it is known which classes the model excludes. A
// cluster has few such kinds of node, so it is computed once for each and not per
// node. It is read-only and safe to share.
type NodeWorkload struct {
	weight int64
	// placeable are the classes with devices that fit an empty node of this kind.
	placeable []resolvedClass
	// noDevice are the classes without devices.
	noDevice []resolvedClass
	// noAccess is the weight of the classes that this kind of node excludes.
	noAccess int64

	// What follows is FragmentationGradient's view of the same; see value.go.
	classes []valueClass
	// packing is nil if the workload is not one WithSupply.
	packing *packingValues
	// scarcity is the price of a device, in valueUnit.
	scarcity int64
}

// resolvedClass is one class with its share resolved.
type resolvedClass struct {
	cpu     int64
	share   Share
	devices int
	weight  int64
}

// On returns the workload as nodes with this model (in lower case) and device
// memory see it; memory that is not known is 0.
//
// A class that asks for more memory than such a device has in total is excluded
// like one that does not accept the model: neither will ever run there.
func (w *Workload) On(model string, memoryMiB int64) *NodeWorkload {
	memoryMiB = scoredMemory(memoryMiB)
	e := &NodeWorkload{weight: w.weight}
	for i := range w.classes {
		c := &w.classes[i]
		class := resolvedClass{cpu: c.CPUMilli, devices: c.Devices, weight: c.Weight}
		if c.Devices == 0 {
			e.noDevice = append(e.noDevice, class)
			continue
		}
		share, ok := c.on(model, memoryMiB)
		if !ok {
			e.noAccess += c.Weight
			continue
		}
		class.share = share
		e.placeable = append(e.placeable, class)
	}
	w.addValues(e, model, memoryMiB)
	return e
}
