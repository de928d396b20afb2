// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// CPUMilli is the CPU that a pod requests, in milli-CPU, as NodeResourcesFit counts it.
func CPUMilli(pod *corev1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}
