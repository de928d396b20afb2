// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestRemoveShares: NodeResourceTopologyMatch sees all requests but those for shares, and
// the pod itself stays as it is. That it goes to the right node is shown with a real
// scheduler, in test/integration/gpunuma.
func TestRemoveShares(t *testing.T) {
	one, half := resource.MustParse("1"), resource.MustParse("500")
	container := func(requests corev1.ResourceList) corev1.Container {
		return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}
	}
	plain := container(corev1.ResourceList{corev1.ResourceCPU: one, "nvidia.com/gpu": one})
	sharing := container(corev1.ResourceList{corev1.ResourceCPU: one, names.GPUMilliResource: half, names.GPUMemoryResource: one})
	without := container(corev1.ResourceList{corev1.ResourceCPU: one})
	for _, tt := range []struct {
		name string
		spec corev1.PodSpec
		asks bool
		want corev1.PodSpec
	}{
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{plain}}, false, corev1.PodSpec{Containers: []corev1.Container{plain}}},
		{
			"a container",
			corev1.PodSpec{Containers: []corev1.Container{plain, sharing}},
			true,
			corev1.PodSpec{Containers: []corev1.Container{plain, without}},
		},
		{
			"an init container",
			corev1.PodSpec{InitContainers: []corev1.Container{sharing}, Containers: []corev1.Container{plain}},
			true,
			corev1.PodSpec{InitContainers: []corev1.Container{without}, Containers: []corev1.Container{plain}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tt.spec}
			before := pod.DeepCopy()
			if got := asksForShares(pod); got != tt.asks {
				t.Errorf("asks for shares: %v", got)
			}
			if diff := cmp.Diff(tt.want, removeShares(pod).Spec); diff != "" {
				t.Errorf("Unexpected pod (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod itself changed (-before,+after):\n%s", diff)
			}
		})
	}
}
