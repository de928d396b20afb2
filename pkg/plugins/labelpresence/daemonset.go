// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isDaemonPod reports whether the pod looks like one that the DaemonSet
// controller made for one given node: controlled by a DaemonSet, and with the
// required affinity to a node's name that this controller adds.
//
// Both can be written by whoever may create pods. A pod gains nothing by it but
// the exemption from rules, and only on the one node that it names; where even
// that is too much, args.daemonSets is Enforce.
func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != appsv1.GroupName {
		return false
	}
	return isPinnedToNode(pod)
}

// isPinnedToNode reports whether the required node affinity is one term that
// names exactly one node.
func isPinnedToNode(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return false
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 {
		return false
	}
	for _, field := range required.NodeSelectorTerms[0].MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
			return true
		}
	}
	return false
}
