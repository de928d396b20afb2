// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	nodeaffinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// TestWholePod asks which nodes of a trace a pod's affinity admits, and what it
// requests.
func TestWholePod(t *testing.T) {
	trace := &Trace{Nodes: []Node{
		{Name: "t4", Devices: 1, Model: "T4"},
		{Name: "t4-too", Devices: 1, Model: "t4"},
		{Name: "a10", Devices: 1, Model: "A10"},
		{Name: "unknown", Devices: 1},
		{Name: "none"},
	}}
	everywhere := []string{"t4", "t4-too", "a10", "unknown", "none"}
	tests := []struct {
		name         string
		row          Pod
		wantNodes    []string
		wantRequests corev1.ResourceList
	}{
		{
			name: "no device", row: Pod{Name: "p", CPUMilli: 1500, MemoryMiB: 2}, wantNodes: everywhere,
			wantRequests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Mi")},
		},
		{
			name: "a share is one device", row: Pod{Name: "p", Devices: 1, Milli: 10}, wantNodes: everywhere,
			wantRequests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
		},
		{
			name: "whole devices", row: Pod{Name: "p", Devices: 4, Milli: 1000}, wantNodes: everywhere,
			wantRequests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")},
		},
		{
			name: "a model, however nodes write it", row: Pod{Name: "p", Devices: 1, Milli: 1000, Models: "T4"},
			wantNodes:    []string{"t4", "t4-too"},
			wantRequests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
		},
		{
			name: "models, one of them unknown", row: Pod{Name: "p", Devices: 1, Milli: 1000, Models: "H100|a10"},
			wantNodes:    []string{"a10"},
			wantRequests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := trace.WholeDevices()
			pod := whole.Pod(&tt.row, "some-scheduler")
			if diff := cmp.Diff(tt.wantRequests, pod.Spec.Containers[0].Resources.Requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
			if pod.Spec.SchedulerName != "some-scheduler" || len(pod.Annotations) > 0 {
				t.Errorf("schedulerName %q, annotations %v", pod.Spec.SchedulerName, pod.Annotations)
			}
			var admitted []string
			for i := range trace.Nodes {
				node := whole.Node(&trace.Nodes[i])
				match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
				if err != nil {
					t.Fatal(err)
				}
				if match {
					admitted = append(admitted, node.Name)
				}
			}
			if diff := cmp.Diff(tt.wantNodes, admitted); diff != "" {
				t.Errorf("nodes (-want,+got):\n%s", diff)
			}
		})
	}
}
