// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOf(t *testing.T) {
	labeled := metav1.ObjectMeta{Namespace: "team", Labels: map[string]string{Label: "old"}}
	native := &corev1.PodSchedulingGroup{PodGroupName: new("new")}
	for _, tt := range []struct {
		name string
		pod  corev1.Pod
		want Ref
	}{
		{name: "none", pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{}}}},
		{name: "Coscheduling's", pod: corev1.Pod{ObjectMeta: labeled}, want: Ref{types.NamespacedName{Namespace: "team", Name: "old"}, false}},
		{name: "Kubernetes' own first", pod: corev1.Pod{ObjectMeta: labeled, Spec: corev1.PodSpec{SchedulingGroup: native}}, want: Ref{types.NamespacedName{Namespace: "team", Name: "new"}, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Of(&tt.pod); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
