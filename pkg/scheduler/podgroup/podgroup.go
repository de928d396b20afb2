// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup says which PodGroup a pod belongs to: one of Kubernetes' own
// (scheduling.k8s.io), or one of Coscheduling.
package podgroup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Label is the key of the label with which a pod joins a PodGroup of Coscheduling.
const Label = "scheduling.x-k8s.io/pod-group"

// Ref names a PodGroup. The zero value names none.
type Ref struct {
	types.NamespacedName
	// Native is whether it is one of Kubernetes' own.
	Native bool
}

// Of returns the PodGroup that the pod names; the zero value if it names none. That the
// PodGroup exists is not said.
func Of(pod *corev1.Pod) Ref {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return Ref{types.NamespacedName{Namespace: pod.Namespace, Name: *group.PodGroupName}, true}
	}
	if name := pod.Labels[Label]; name != "" {
		return Ref{types.NamespacedName{Namespace: pod.Namespace, Name: name}, false}
	}
	return Ref{}
}
