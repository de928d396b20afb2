// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestTypicalWorkload takes the commonest shapes up to 95 % of the pods.
func TestTypicalWorkload(t *testing.T) {
	var pods []*corev1.Pod
	add := func(n int, model string, limits map[corev1.ResourceName]string) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
		list := corev1.ResourceList{}
		for name, amount := range limits {
			list[name] = resource.MustParse(amount)
		}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
		if model != "" {
			pod.Annotations = map[string]string{names.GPUModelAnnotation: model}
		}
		pods = append(pods, slices.Repeat([]*corev1.Pod{pod}, n)...)
	}
	add(50, "", map[corev1.ResourceName]string{"cpu": "1", "memory": "7Mi", names.GPUMilliResource: "500"})
	add(30, "", map[corev1.ResourceName]string{"cpu": "2"})
	add(10, "", map[corev1.ResourceName]string{"cpu": "1", "memory": "9Mi", names.GPUMilliResource: "500"}) // memory makes no other shape
	add(6, "T4", map[corev1.ResourceName]string{"cpu": "1", names.GPUMilliResource: "2k"})
	add(4, "", map[corev1.ResourceName]string{"cpu": "9", names.GPUMilliResource: "1k"})

	keys := DefaultNodeKeys()
	workload, err := TypicalWorkload(slices.Values(pods), &keys)
	must(t, err)
	type class struct {
		Weight, CPU, Milli int64
		Devices            int
		Models             string
	}
	var got []class
	for _, c := range workload.Classes() {
		got = append(got, class{c.Weight, c.CPUMilli, c.Milli, c.Devices, c.Models.String()})
	}
	want := []class{{60, 1000, 500, 1, ""}, {30, 2000, 0, 0, ""}, {6, 1000, 1000, 2, "t4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want,+got):\n%s", diff)
	}

	none, err := TypicalWorkload(slices.Values(pods[50:80]), &keys)
	if none != nil || err != nil {
		t.Errorf("pods without devices: %v, %v; want no workload", none, err)
	}
}
