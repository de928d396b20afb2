// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

// TestImpossiblePlacements: what no scheduler may do is an error, and no number.
func TestImpossiblePlacements(t *testing.T) {
	node := func(name string, shared bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "1000"}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("3")}
		if shared {
			n.Labels[names.GPUSharingLabel] = "true"
		} else {
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
		}
		return n
	}
	pod := func(node, resourceName, amount, record string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.NodeName = node
		list := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse(amount)}
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}}
		if device, _, ok := strings.Cut(record, ":"); ok {
			p.Annotations = map[string]string{names.GPUAssignedAnnotation: "c=" + record, names.GPUDevicesAnnotationPrefix + "c": device}
		}
		return p
	}
	half := func(record string) *corev1.Pod { return pod("shared", names.GPUMilliResource, "600", record) }
	tests := []struct {
		name string
		pods []*corev1.Pod
		want string // empty if it can be
	}{
		{"one share on each device", []*corev1.Pod{half("0:600m:600Mi"), half("1:600m:600Mi")}, ""},
		{"two shares too large for one device", []*corev1.Pod{half("0:600m:600Mi"), half("0:600m:600Mi")}, `of device 0 of node "shared" are allocated, to /p c (600m 600Mi), /p c (600m 600Mi)`},
		{"a share without a device", []*corev1.Pod{half("")}, "annotation berth.dev/gpu-assigned is missing"},
		{"a device that is not there", []*corev1.Pod{half("2:600m:600Mi")}, `was given device 2 of node "shared", which shares 2`},
		{"whole devices", []*corev1.Pod{pod("whole", "nvidia.com/gpu", "1", ""), pod("whole", "nvidia.com/gpu", "1", "")}, ""},
		{"more whole devices than there are", []*corev1.Pod{pod("whole", "nvidia.com/gpu", "1", ""), pod("whole", "nvidia.com/gpu", "2", "")}, `the pods on node "whole" request 3 nvidia.com/gpu of 2`},
		{"more CPU than there is", []*corev1.Pod{pod("whole", "cpu", "3", ""), pod("whole", "cpu", "1500m", "")}, `the pods on node "whole" request 4500m cpu of 4`},
		{"more pods than it takes", []*corev1.Pod{pod("whole", "cpu", "1", ""), pod("whole", "cpu", "1", ""), pod("whole", "cpu", "1", ""), pod("whole", "cpu", "1", "")}, `the pods on node "whole" request 4 pods of 3`},
		{"somebody else's node", []*corev1.Pod{pod("kind-worker", "cpu", "1", "")}, `pod p is on node "kind-worker", which is not the benchmark's`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end := &finalState{plan: &workload.Plan{}, pods: tt.pods, placed: tt.pods, nodes: map[string]*corev1.Node{"shared": node("shared", true), "whole": node("whole", false)}}
			metrics := map[string]float64{}
			err := end.quality(metrics)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			case tt.want != "" && len(metrics) > 0:
				t.Errorf("metrics of a placement that cannot be: %v", metrics)
			}
		})
	}
}
