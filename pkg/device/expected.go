// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Expected is a workload as nodes of one model and device memory see it: derived
// amounts are resolved, and it is known which classes the model excludes. A
// cluster has few such kinds of node, so it is computed once for each and not per
// node. It is read-only and safe to share.
type Expected struct {
	weight int64
	// placeable are the classes with devices that fit an empty node of this kind.
	placeable []expectedClass
	// noDevice are the classes without devices.
	noDevice []expectedClass
	// noAccess is the weight of the classes that this kind of node excludes.
	noAccess int64
	// indifferent is the weight of noDevice and noAccess together: to them every
	// idle thousandth is a fragment, whatever else is true.
	indifferent int64

	// What follows is FragmentationGradient's view of the same; see worth.
	classes []worthClass
	// packing is nil if the workload is not priced.
	packing *packingValues
	// scarcity is the price of a device, in worthUnit.
	scarcity int64
}

// expectedClass is one class with its share resolved.
type expectedClass struct {
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
func (w *Workload) On(model string, memoryMiB int64) *Expected {
	memoryMiB = scoredMemory(memoryMiB)
	e := &Expected{weight: w.weight}
	for i := range w.classes {
		c := &w.classes[i]
		class := expectedClass{cpu: c.CPUMilli, devices: c.Devices, weight: c.Weight}
		if c.Devices == 0 {
			e.noDevice = append(e.noDevice, class)
			e.indifferent += c.Weight
			continue
		}
		share, ok := c.on(model, memoryMiB)
		if !ok {
			e.noAccess += c.Weight
			e.indifferent += c.Weight
			continue
		}
		class.share = share
		e.placeable = append(e.placeable, class)
	}
	w.price(e, model, memoryMiB)
	return e
}
