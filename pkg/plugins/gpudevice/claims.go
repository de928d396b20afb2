// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// mayClaimDevices reports whether a ResourceClaim of the pod is for devices of a DRA
// driver of the arguments, or may be; so may an extended resource that a DeviceClass
// stands for (KEP-5004), for which the scheduler makes a claim. What is allocated tells it; before that, the
// device classes that are asked for do. What cannot be looked up may be for devices.
//
// The objects are those that the scheduler's own DRA plugin works with: nothing is
// watched for it.
func (pl *GPUDevice) mayClaimDevices(pod *corev1.Pod) bool {
	if len(pl.draDrivers) == 0 || len(pod.Spec.ResourceClaims) == 0 && !pl.asksForOthersResources(pod) {
		return false
	}
	manager := pl.handle.SharedDRAManager()
	if manager == nil {
		return len(pod.Spec.ResourceClaims) > 0
	}
	if pl.asksForDeviceClass(manager, pod.Spec.Containers) || pl.asksForDeviceClass(manager, pod.Spec.InitContainers) {
		return true
	}
	for i := range pod.Spec.ResourceClaims {
		name, needed := claimName(pod, &pod.Spec.ResourceClaims[i])
		if !needed {
			continue
		}
		claim, err := manager.ResourceClaims().Get(pod.Namespace, name)
		if err != nil || pl.isDeviceClaim(manager.DeviceClasses(), claim) {
			return true
		}
	}
	return false
}

// asksForOthersResources reports whether a container has a limit of an extended
// resource that is neither ours nor one of the device plugin's.
func (pl *GPUDevice) asksForOthersResources(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name, q := range containers[i].Resources.Limits {
				if pl.isOthersResource(name) && !q.IsZero() {
					return true
				}
			}
		}
	}
	return false
}

func (pl *GPUDevice) isOthersResource(name corev1.ResourceName) bool {
	return strings.IndexByte(string(name), '/') >= 0 && !strings.HasPrefix(string(name), names.Prefix) && !pl.nodeKeys.HandsOut(name)
}

// asksForDeviceClass reports whether a container has a limit of an extended resource
// that stands for a DeviceClass with devices of a driver of the arguments.
func (pl *GPUDevice) asksForDeviceClass(manager fwk.SharedDRAManager, containers []corev1.Container) bool {
	for i := range containers {
		for name, q := range containers[i].Resources.Limits {
			if q.IsZero() || !pl.isOthersResource(name) {
				continue
			}
			if class, ok := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); ok {
				if pl.isDeviceClass(manager.DeviceClasses(), class) {
					return true
				}
			} else if class := manager.DeviceClassResolver().GetDeviceClass(name); class != nil && pl.selectsDevices(class) {
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
func (pl *GPUDevice) isDeviceClaim(classes fwk.DeviceClassLister, claim *resourcev1.ResourceClaim) bool {
	if allocation := claim.Status.Allocation; allocation != nil {
		return slices.ContainsFunc(allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
			return slices.Contains(pl.draDrivers, r.Driver)
		})
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil && pl.isDeviceClass(classes, request.Exactly.DeviceClassName) {
			return true
		}
		for j := range request.FirstAvailable {
			if pl.isDeviceClass(classes, request.FirstAvailable[j].DeviceClassName) {
				return true
			}
		}
	}
	return false
}

// isDeviceClass reports whether the class has, or may have, devices of a driver of the
// arguments: one of its selectors names the driver, or it selects by nothing that
// belongs to another driver.
func (pl *GPUDevice) isDeviceClass(classes fwk.DeviceClassLister, name string) bool {
	class, err := classes.Get(name)
	return err != nil || pl.selectsDevices(class)
}

func (pl *GPUDevice) selectsDevices(class *resourcev1.DeviceClass) bool {
	others := false
	for i := range class.Spec.Selectors {
		cel := class.Spec.Selectors[i].CEL
		if cel == nil {
			continue
		}
		for _, driver := range pl.draDrivers {
			if strings.Contains(cel.Expression, driver) {
				return true
			}
		}
		for _, field := range []string{"device.driver", "device.attributes", "device.capacity"} {
			others = others || strings.Contains(cel.Expression, field)
		}
	}
	return !others
}
