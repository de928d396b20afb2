// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// ClaimsOf returns the names of the pod's ResourceClaims, as far as they are made: those
// that it names, those of its templates, and the one that stands for its extended
// resources.
func ClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		if podClaim.ResourceClaimName != nil {
			names = append(names, *podClaim.ResourceClaimName)
			continue
		}
		for _, status := range pod.Status.ResourceClaimStatuses {
			if status.Name == podClaim.Name && status.ResourceClaimName != nil {
				names = append(names, *status.ResourceClaimName)
			}
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}

// CurrentSlices returns the slices of the newest generation of each pool: the others are
// left over while a driver replaces them.
func CurrentSlices(list []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, slice := range list {
		p := pool{slice.Spec.Driver, slice.Spec.Pool.Name}
		newest[p] = max(newest[p], slice.Spec.Pool.Generation)
	}
	return slices.DeleteFunc(slices.Clone(list), func(slice *resourcev1.ResourceSlice) bool {
		return slice.Spec.Pool.Generation < newest[pool{slice.Spec.Driver, slice.Spec.Pool.Name}]
	})
}

// ClaimDevice is a device that a ResourceClaim has, or a part of one.
type ClaimDevice struct {
	// Claim is the claim's name, in the namespace of its pod, and Request the request in it
	// that the device serves.
	Claim   string `json:"claim"`
	Request string `json:"request"`
	// Driver, Pool and Device name the device.
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
	// Consumed is what the claim has of a device that several claims share, by capacity;
	// none for a device that it has alone.
	Consumed map[string]string `json:"consumed,omitempty"`
	// AdminAccess is whether the claim may only look at the device, which others use.
	AdminAccess bool `json:"adminAccess,omitempty"`
}

// DevicesOf returns the devices that are allocated to a claim.
func DevicesOf(claim *resourcev1.ResourceClaim) []ClaimDevice {
	if claim.Status.Allocation == nil {
		return nil
	}
	var devices []ClaimDevice
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		device := ClaimDevice{
			Claim: claim.Name, Request: result.Request, Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			AdminAccess: result.AdminAccess != nil && *result.AdminAccess,
		}
		for name, amount := range result.ConsumedCapacity {
			if device.Consumed == nil {
				device.Consumed = map[string]string{}
			}
			device.Consumed[string(name)] = amount.String()
		}
		devices = append(devices, device)
	}
	return devices
}

// DeviceNames returns the devices as text.
func DeviceNames(devices []ClaimDevice) []string {
	names := make([]string, 0, len(devices))
	for i := range devices {
		names = append(names, devices[i].String())
	}
	return names
}

// String returns "DRIVER/POOL/DEVICE", with what the claim has of a shared device in brackets.
func (d *ClaimDevice) String() string {
	name := d.Driver + "/" + d.Pool + "/" + d.Device
	if share := d.Share(); share != "" {
		name += " (" + share + ")"
	}
	return name
}

// Share writes what the claim has of a shared device, as in "cores=50 memory=10Gi".
func (d *ClaimDevice) Share() string {
	parts := make([]string, 0, len(d.Consumed))
	for _, name := range slices.Sorted(maps.Keys(d.Consumed)) {
		parts = append(parts, name+"="+d.Consumed[name])
	}
	return strings.Join(parts, " ")
}
