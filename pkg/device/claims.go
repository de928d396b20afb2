// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// DefaultDRADrivers are the DRA drivers that hand out what Berth shares.
func DefaultDRADrivers() []string { return []string{"gpu.nvidia.com"} }

// ClaimSource looks up what ResourceClaims are for. What it cannot find may be for
// devices.
type ClaimSource interface {
	// Claim returns a ResourceClaim, or an error.
	Claim(namespace, name string) (*resourcev1.ResourceClaim, error)
	// Class returns a DeviceClass, or an error.
	Class(name string) (*resourcev1.DeviceClass, error)
	// ClassOf returns the DeviceClass that an extended resource stands for, nil if there
	// is none.
	ClassOf(name corev1.ResourceName) *resourcev1.DeviceClass
}

// Claims tells which pods have devices through ResourceClaims.
type Claims struct {
	// Drivers are the DRA drivers that hand out what is shared. Without any, no pod has.
	Drivers []string
	// Keys are by which pods ask a device plugin, which is no claim.
	Keys *NodeKeys
}

// NeedsLookup is false for a pod whose objects need not be looked up: it has no claim, and
// no limit that may stand for one.
func (c *Claims) NeedsLookup(pod *corev1.Pod) bool {
	return len(c.Drivers) > 0 && (len(pod.Spec.ResourceClaims) > 0 || c.MayRequestDRAExtendedResource(pod))
}

// MayHaveDevices reports whether a ResourceClaim of the pod is for devices of one of the
// drivers, or may be; so may an extended resource that a DeviceClass stands for
// (KEP-5004), for which the scheduler makes a claim. What is allocated tells it; before
// that, the device classes that are asked for do. What cannot be looked up may be for
// devices.
func (c *Claims) MayHaveDevices(pod *corev1.Pod, source ClaimSource) bool {
	if !c.NeedsLookup(pod) {
		return false
	}
	if c.requestsDeviceClass(source, pod.Spec.Containers) || c.requestsDeviceClass(source, pod.Spec.InitContainers) {
		return true
	}
	for i := range pod.Spec.ResourceClaims {
		name, needed := claimName(pod, &pod.Spec.ResourceClaims[i])
		if !needed {
			continue
		}
		claim, err := source.Claim(pod.Namespace, name)
		if err != nil || c.isDeviceClaim(source, claim) {
			return true
		}
	}
	return false
}

// MayRequestDRAExtendedResource reports whether a container has a limit of an extended
// resource that is neither ours nor one of the device plugin's.
func (c *Claims) MayRequestDRAExtendedResource(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name, q := range containers[i].Resources.Limits {
				if c.mayBeDRAExtendedResource(name) && !q.IsZero() {
					return true
				}
			}
		}
	}
	return false
}

func (c *Claims) mayBeDRAExtendedResource(name corev1.ResourceName) bool {
	return strings.IndexByte(string(name), '/') >= 0 && !strings.HasPrefix(string(name), names.Prefix) && !c.Keys.IsDevicePluginResource(name)
}

// requestsDeviceClass reports whether a container has a limit of an extended resource
// that stands for a DeviceClass with devices of one of the drivers.
func (c *Claims) requestsDeviceClass(source ClaimSource, containers []corev1.Container) bool {
	for i := range containers {
		for name, q := range containers[i].Resources.Limits {
			if q.IsZero() || !c.mayBeDRAExtendedResource(name) {
				continue
			}
			if class, ok := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); ok {
				if c.isDeviceClass(source, class) {
					return true
				}
			} else if class := source.ClassOf(name); class != nil && c.selectsDevices(class) {
				return true
			}
		}
	}
	return false
}

// claimName returns the name of the ResourceClaim, which is empty as long as it is not
// known, and whether there is to be one at all.
func claimName(pod *corev1.Pod, ref *corev1.PodResourceClaim) (name string, needed bool) {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName, true
	}
	for i := range pod.Status.ResourceClaimStatuses {
		status := &pod.Status.ResourceClaimStatuses[i]
		if status.Name != ref.Name {
			continue
		}
		if status.ResourceClaimName == nil {
			return "", false // none was necessary
		}
		return *status.ResourceClaimName, true
	}
	return "", true
}

// isDeviceClaim reports whether the claim is, or may be, for devices.
func (c *Claims) isDeviceClaim(source ClaimSource, claim *resourcev1.ResourceClaim) bool {
	if allocation := claim.Status.Allocation; allocation != nil {
		return slices.ContainsFunc(allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
			return slices.Contains(c.Drivers, r.Driver)
		})
	}
	// A claim has up to 32 requests with 8 alternatives each, as a rule of one class.
	var others []string
	isDeviceClass := func(class string) bool {
		if slices.Contains(others, class) {
			return false
		}
		others = append(others, class)
		return c.isDeviceClass(source, class)
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil && isDeviceClass(request.Exactly.DeviceClassName) {
			return true
		}
		for j := range request.FirstAvailable {
			if isDeviceClass(request.FirstAvailable[j].DeviceClassName) {
				return true
			}
		}
	}
	return false
}

// isDeviceClass reports whether the class has, or may have, devices of one of the
// drivers: it has, unless one of its selectors, which must all hold, lets through the
// devices of another driver alone.
func (c *Claims) isDeviceClass(source ClaimSource, name string) bool {
	class, err := source.Class(name)
	return err != nil || c.selectsDevices(class)
}

func (c *Claims) selectsDevices(class *resourcev1.DeviceClass) bool {
	for i := range class.Spec.Selectors {
		if cel := class.Spec.Selectors[i].CEL; cel != nil {
			if driver := onlyDriver(cel.Expression); driver != "" && !slices.Contains(c.Drivers, driver) {
				return false
			}
		}
	}
	return true
}
