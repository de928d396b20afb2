// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "encoding/json"

// RequestKind says in which of the ways a pod asks for devices.
type RequestKind uint8

const (
	// RequestNone is a pod that asks for no device.
	RequestNone RequestKind = iota
	// RequestShares is a pod with gpu-milli or gpu-memory limits. It fits shared
	// nodes alone.
	RequestShares
	// RequestDevicePlugin is a pod with limits of a vendor's device-plugin resource.
	// It fits nodes that are not shared; their devices are counted by
	// NodeResourcesFit and chosen by the vendor's device plugin.
	RequestDevicePlugin
	// RequestPartitions is a pod with limits of parts of devices that a vendor's device
	// plugin hands out, such as MIG devices, and of no whole device. It fits nodes that
	// are not shared. The size of a part is not known here, so the pod has no
	// Containers.
	RequestPartitions
)

// ContainerKind is the part that a container plays in the life of its pod.
type ContainerKind uint8

const (
	// Main is a container of spec.containers. All of them run together, beside
	// every Sidecar.
	Main ContainerKind = iota
	// Init is an ordinary init container. It runs alone among the ordinary
	// containers, beside the sidecars that were declared before it, and is over
	// before the next one starts.
	Init
	// Sidecar is an init container with restartPolicy Always. It runs from its
	// place in spec.initContainers to the end of the pod.
	Sidecar
)

// ContainerRequest is what one container asks for.
type ContainerRequest struct {
	// Container is the container's name.
	Container string
	// Kind is its part in the life of the pod.
	Kind ContainerKind
	// Devices is the number of devices, at least 1. More than one means whole
	// devices.
	Devices int
	// Milli is asked of each device: 1 to 1000, or 0 to default it from MemoryMiB.
	Milli int64
	// MemoryMiB is asked of each device: at least 1, or 0 to default it from Milli.
	MemoryMiB int64
}

// On returns the share that the container takes of each device on a node whose devices
// have memoryMiB each. What was not asked for is defaulted in proportion, rounded
// down, and at least 1. The second result is false if the request is larger than
// such a device, so that no eviction could make room.
func (a *ContainerRequest) On(memoryMiB int64) (Share, bool) {
	share := Share{Milli: a.Milli, MemoryMiB: a.MemoryMiB}
	if share.MemoryMiB == 0 {
		share.MemoryMiB = derivedMemory(share.Milli, memoryMiB)
	}
	if share.MemoryMiB > memoryMiB {
		return Share{}, false
	}
	if share.Milli == 0 {
		share.Milli = derivedMilli(share.MemoryMiB, memoryMiB)
	}
	return share, true
}

// derivedMemory is the memory of so many thousandths of a device.
func derivedMemory(milli, deviceMemoryMiB int64) int64 {
	return max(1, deviceMemoryMiB*milli/MilliPerDevice)
}

// derivedMilli is the compute of so much memory of a device.
func derivedMilli(memoryMiB, deviceMemoryMiB int64) int64 {
	return max(1, MilliPerDevice*memoryMiB/deviceMemoryMiB)
}

// Request is what a pod asks for, parsed once from its spec and annotations. It
// is read-only after ParsePod and safe to share.
type Request struct {
	// Kind is how the pod asks.
	Kind RequestKind
	// Containers are those that ask, init containers first, each list in the
	// order of the spec. With RequestDevicePlugin it is one synthetic one of the
	// number of whole devices that the pod needs at its peak.
	Containers []ContainerRequest
	// Models are the models that the pod accepts; the zero value accepts all.
	Models Models
	// MinMemoryMiB is what every device of the pod must have in total; 0 is no
	// constraint.
	MinMemoryMiB int64
}

// RequestKey is what a request asks for, as a key of a map: equal keys are requests that
// differ in the names of containers at most.
type RequestKey struct {
	Kind         RequestKind   `json:"kind"`
	Containers   ContainerKeys `json:"containers"`
	Models       Models        `json:"models,omitzero"`
	MinMemoryMiB int64         `json:"minMemoryMiB,omitzero"`
}

// ContainerKeys are the containers of a RequestKey, and zeros after them.
type ContainerKeys [MaxContainers]ContainerKey

// ContainerKey is a ContainerRequest without the name.
type ContainerKey struct {
	MemoryMiB int64         `json:"memoryMiB,omitzero"`
	Devices   int32         `json:"devices"`
	Milli     int16         `json:"milli,omitzero"`
	Kind      ContainerKind `json:"kind,omitzero"`
}

// Key returns the key of the request.
func (r *Request) Key() RequestKey {
	key := RequestKey{Kind: r.Kind, Models: r.Models, MinMemoryMiB: r.MinMemoryMiB}
	for i := range r.Containers {
		c := &r.Containers[i]
		//nolint:gosec // ParsePod bounds them
		key.Containers[i] = ContainerKey{MemoryMiB: c.MemoryMiB, Devices: int32(c.Devices), Milli: int16(c.Milli), Kind: c.Kind}
	}
	return key
}

// MarshalJSON leaves out the zeros.
func (c ContainerKeys) MarshalJSON() ([]byte, error) {
	asking := 0
	for asking < len(c) && c[asking].Devices > 0 {
		asking++
	}
	return json.Marshal(c[:asking])
}

// Constrained reports whether the pod accepts only some devices, by model or by
// memory.
func (r *Request) Constrained() bool {
	return !r.Models.Any() || r.MinMemoryMiB > 0
}

// AtPeak returns the sum over all devices of what the pod needs at the busiest
// point of its life, on a node whose devices have memoryMiB each. A container that asks
// for more than a device has counts as one that asks for whole devices.
func (r *Request) AtPeak(memoryMiB int64) Share {
	var running, peak Share
	for i := range r.Containers {
		a := &r.Containers[i]
		share, ok := a.On(memoryMiB)
		if !ok {
			share = Share{Milli: MilliPerDevice, MemoryMiB: memoryMiB}
		}
		share.Milli *= int64(a.Devices)
		share.MemoryMiB *= int64(a.Devices)
		if a.Kind == Init {
			peak = peak.max(running.plus(share))
			continue
		}
		running = running.plus(share)
	}
	return peak.max(running)
}
