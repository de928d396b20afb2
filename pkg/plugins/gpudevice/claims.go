// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// mayClaimDevices reports whether a ResourceClaim of the pod is for devices of a DRA
// driver that hands out what Berth shares, or may be (device.Claims). The objects are
// those that the scheduler's own DRA plugin works with: nothing is watched for it.
func (pl *GPUDevice) mayClaimDevices(pod *corev1.Pod) bool {
	if !pl.claims.NeedsLookup(pod) {
		return false
	}
	manager := pl.handle.SharedDRAManager()
	if manager == nil {
		return len(pod.Spec.ResourceClaims) > 0
	}
	return pl.claims.MayHaveDevices(pod, draSource{manager})
}

// draSource is what the scheduler's DRA plugin knows, as a device.ClaimSource.
type draSource struct{ fwk.SharedDRAManager }

// Claim implements device.ClaimSource.
func (s draSource) Claim(namespace, name string) (*resourcev1.ResourceClaim, error) {
	return s.ResourceClaims().Get(namespace, name)
}

// Class implements device.ClaimSource.
func (s draSource) Class(name string) (*resourcev1.DeviceClass, error) {
	return s.DeviceClasses().Get(name)
}

// ClassOf implements device.ClaimSource.
func (s draSource) ClassOf(name corev1.ResourceName) *resourcev1.DeviceClass {
	return s.DeviceClassResolver().GetDeviceClass(name)
}
