// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// HasShareRequest reports whether a container of the pod has a limit of ours that is not
// zero. It does not parse, so that every pod on every changed node can be asked.
func HasShareRequest(pod *corev1.Pod) bool {
	return anyShareRequest(pod.Spec.Containers) || anyShareRequest(pod.Spec.InitContainers)
}

func anyShareRequest(containers []corev1.Container) bool {
	for i := range containers {
		limits := containers[i].Resources.Limits
		if len(limits) == 0 {
			continue
		}
		for _, name := range names.ShareResources {
			if q, ok := limits[corev1.ResourceName(name)]; ok && !q.IsZero() {
				return true
			}
		}
	}
	return false
}

// HasDevicePluginRequest reports whether a container of the pod has a limit of devices, or parts
// of devices, that a device plugin hands out.
func (k *NodeKeys) HasDevicePluginRequest(pod *corev1.Pod) bool {
	return k.anyDevicePluginRequest(pod.Spec.Containers) || k.anyDevicePluginRequest(pod.Spec.InitContainers)
}

func (k *NodeKeys) anyDevicePluginRequest(containers []corev1.Container) bool {
	for i := range containers {
		for name, q := range containers[i].Resources.Limits {
			if !q.IsZero() && k.IsDevicePluginResource(name) {
				return true
			}
		}
	}
	return false
}
