// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import corev1 "k8s.io/api/core/v1"

// Edit changes a pod before it is created.
type Edit = func(*corev1.Pod)

// Edits makes several edits.
func Edits(edits ...Edit) Edit {
	return func(pod *corev1.Pod) {
		for _, edit := range edits {
			edit(pod)
		}
	}
}

// Tolerates sets the tolerations.
func Tolerates(tolerations ...corev1.Toleration) Edit {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerations }
}

// ToleratesAll tolerates every taint.
var ToleratesAll = Tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})

// OnNode names the node.
func OnNode(name string) Edit { return func(pod *corev1.Pod) { pod.Spec.NodeName = name } }

// ScheduledBy sets the schedulerName.
func ScheduledBy(name string) Edit { return func(pod *corev1.Pod) { pod.Spec.SchedulerName = name } }

// Annotated sets one annotation, and removes the others.
func Annotated(key, value string) Edit {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}
