// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/device"
)

// TestNodeObject looks at the object as GPUDevice does: with its devices shared, and
// with whole ones.
func TestNodeObject(t *testing.T) {
	keys := device.DefaultNodeKeys()
	tests := []struct {
		name string
		row  Node
		// want is what both forms have in common.
		want device.Node
	}{
		{name: "without devices", row: Node{Name: "n", CPUMilli: 32500, MemoryMiB: 3}},
		{
			name: "with devices", row: Node{Name: "n", CPUMilli: 96000, MemoryMiB: 393216, Devices: 8, Model: "V100M16"},
			want: device.Node{Devices: 8, MemoryMiB: deviceMemoryMiB, Model: "v100m16"},
		},
		{name: "with devices of an unknown model", row: Node{Name: "n", Devices: 2}, want: device.Node{Devices: 2, MemoryMiB: deviceMemoryMiB}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shared, whole := tt.row.Object(), (&Trace{Nodes: []Node{tt.row}}).WholeDevices().Node(&tt.row)
			for kind, node := range map[device.NodeKind]*corev1.Node{device.NodeShared: shared, device.NodeDevicePlugin: whole} {
				want := tt.want
				if want.Kind = kind; want.Devices == 0 {
					want.Kind = device.NodeWithoutDevices
				}
				if diff := cmp.Diff(&want, device.ParseNode(node, &keys)); diff != "" {
					t.Errorf("devices (-want,+got):\n%s", diff)
				}
				allocatable := node.Status.Allocatable
				if cpu, memory := allocatable.Cpu().MilliValue(), allocatable.Memory().Value(); cpu != tt.row.CPUMilli || memory != tt.row.MemoryMiB<<20 {
					t.Errorf("%d milli-CPU and %d bytes, want %d and %d MiB", cpu, memory, tt.row.CPUMilli, tt.row.MemoryMiB)
				}
			}
		})
	}
}

// TestPodObject looks at the object as GPUDevice does.
func TestPodObject(t *testing.T) {
	tests := []struct {
		name         string
		row          Pod
		wantAsks     []device.ContainerRequest
		wantForm     device.RequestKind
		wantModels   string
		wantRequests corev1.ResourceList
	}{
		{
			name: "no device", row: Pod{Name: "p", CPUMilli: 1500, MemoryMiB: 2},
			wantRequests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Mi")},
		},
		{
			name: "nothing", row: Pod{Name: "p"},
			wantRequests: corev1.ResourceList{},
		},
		{
			name: "a share, of some models", row: Pod{Name: "p", Devices: 1, Milli: 460, Models: "V100M16|T4"},
			wantForm: device.RequestShares, wantAsks: []device.ContainerRequest{{Container: "main", Devices: 1, Milli: 460}}, wantModels: "v100m16,t4",
			wantRequests: corev1.ResourceList{"berth.dev/gpu-milli": resource.MustParse("460")},
		},
		{
			name: "whole devices", row: Pod{Name: "p", Devices: 4, Milli: 1000},
			wantForm: device.RequestShares, wantAsks: []device.ContainerRequest{{Container: "main", Devices: 4, Milli: 1000}},
			wantRequests: corev1.ResourceList{"berth.dev/gpu-milli": resource.MustParse("4k")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := tt.row.Object("some-scheduler")
			request, err := device.ParsePod(pod, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.wantAsks, request.Containers); diff != "" || request.Kind != tt.wantForm {
				t.Errorf("form %v, want %v; asks (-want,+got):\n%s", request.Kind, tt.wantForm, diff)
			}
			if got := request.Models.String(); got != tt.wantModels {
				t.Errorf("models %q, want %q", got, tt.wantModels)
			}
			if diff := cmp.Diff(tt.wantRequests, pod.Spec.Containers[0].Resources.Requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
			if got := pod.Spec.SchedulerName; got != "some-scheduler" {
				t.Errorf("schedulerName %q", got)
			}
		})
	}
}
