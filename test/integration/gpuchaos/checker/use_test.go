// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheckUses(t *testing.T) {
	listed := func(list string) corev1.Node {
		node := gpus()
		if list != "" {
			node.Annotations = map[string]string{"berth.dev/gpu-uuids": list}
		}
		return node
	}
	half := func(name, reads string) corev1.Pod { return bound(name, "600", reads, "") }
	plugin := with(half("plugin", ""), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	})
	tests := []struct {
		name  string
		node  corev1.Node
		pods  []corev1.Pod
		want  []Kind
		takes bool // 500 more
	}{
		{"nothing", listed(""), nil, nil, true},
		{"two devices", listed("GPU-a,GPU-b"), []corev1.Pod{half("a", "GPU-a"), half("b", "GPU-b")}, nil, false},
		{"one device twice by UUID", listed("GPU-b,GPU-a"), []corev1.Pod{half("a", "GPU-a"), half("b", "GPU-a")}, []Kind{Overcommitted}, true},
		{"one device by index and UUID", listed("GPU-b,GPU-a"), []corev1.Pod{half("a", "1"), half("b", "GPU-a")}, []Kind{Overcommitted}, true},
		{"a device that is gone", listed("GPU-b,GPU-c"), []corev1.Pod{half("a", "GPU-a"), half("b", "GPU-b")}, nil, true},
		{"no list any more", listed(""), []corev1.Pod{half("a", "GPU-a")}, nil, false},
		{"no record", listed(""), []corev1.Pod{half("a", "")}, []Kind{Unrecorded}, true},
		{"a pod of a device plugin", listed(""), []corev1.Pod{plugin}, nil, false},
		{"one that has ended", listed(""), []corev1.Pod{with(plugin, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := CheckUses([]corev1.Node{tt.node}, tt.pods)
			var got []Kind
			for _, problem := range u.Problems {
				got = append(got, problem.Kind)
			}
			if len(got) != len(tt.want) || len(got) > 0 && got[0] != tt.want[0] {
				t.Errorf("want %v, got %v", tt.want, u.Problems)
			}
			if takes := u.Takes(&tt.node, 500); takes != tt.takes {
				t.Errorf("want it to take more %t, got %t", tt.takes, takes)
			}
		})
	}
}
