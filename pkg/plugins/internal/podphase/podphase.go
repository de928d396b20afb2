// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podphase says what a pod's phase means to the plugins. It imports the API's types
// and nothing else, so that what needs no framework compiles without one.
package podphase

import corev1 "k8s.io/api/core/v1"

// IsTerminated reports whether the pod's containers have ended for good, by its phase.
// Such a pod holds nothing on its node.
func IsTerminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
