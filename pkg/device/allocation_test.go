// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// onNode is a pod whose container main reads devices, with the record.
func onNode(pod *corev1.Pod, devices, record string) *corev1.Pod {
	return annotated(pod, names.GPUDevicesAnnotationPrefix+"main", devices, names.GPUAssignedAnnotation, record)
}

func TestAllocationOn(t *testing.T) {
	main := func(limits ...string) *corev1.Pod { return podOf(container("main", limits...)) }
	a40 := func(uuids ...string) *Node {
		return &Node{Kind: NodeShared, Devices: 2, MemoryMiB: 40960, UUIDs: uuids}
	}
	tests := []struct {
		name    string
		pod     *corev1.Pod
		node    *Node
		want    map[int]Share
		missing []string
		wantErr error
	}{
		{
			name: "by index", pod: onNode(main(milli, "500"), "1", "main=1:500m:20480Mi"), node: a40(),
			want: map[int]Share{1: {500, 20480}},
		},
		{
			name: "by index, where the node lists UUIDs", pod: onNode(main(milli, "500"), "1", "main=1:500m:20480Mi"), node: a40("GPU-b", "GPU-a"),
			want: map[int]Share{1: {500, 20480}},
		},
		{
			name: "by UUID", pod: onNode(main(milli, "500"), "GPU-b", "main=1:500m:20480Mi"), node: a40("GPU-a", "GPU-b"),
			want: map[int]Share{1: {500, 20480}},
		},
		{
			name: "by UUID, the list was reordered", pod: onNode(main(milli, "500"), "GPU-b", "main=1:500m:20480Mi"), node: a40("GPU-b", "GPU-a"),
			want: map[int]Share{0: {500, 20480}},
		},
		{
			name: "by UUID, the list is shorter", pod: onNode(main(milli, "500"), "GPU-b", "main=1:500m:20480Mi"),
			node: &Node{Kind: NodeShared, Devices: 1, MemoryMiB: 40960, UUIDs: []string{"GPU-b"}},
			want: map[int]Share{0: {500, 20480}},
		},
		{
			name: "two devices, of which one is gone", pod: onNode(main(milli, "2000"), "GPU-a,GPU-b", "main=0,1:1000m:40960Mi"), node: a40("GPU-c", "GPU-a"),
			want: map[int]Share{1: {1000, 40960}}, missing: []string{"GPU-b"},
		},
		{
			name: "by UUID, the node lists none", pod: onNode(main(milli, "500"), "GPU-b", "main=1:500m:20480Mi"), node: a40(),
			want: map[int]Share{1: {500, 20480}}, wantErr: ErrUUIDsNotListed,
		},
		{
			name: "less memory: derived from compute", pod: onNode(main(milli, "1000"), "0", "main=0:1000m:40960Mi"), node: &Node{Kind: NodeShared, Devices: 1, MemoryMiB: 40936},
			want: map[int]Share{0: {1000, 40936}},
		},
		{
			name: "less memory: as asked", pod: onNode(main(milli, "250", memory, "20Gi"), "0", "main=0:250m:20480Mi"), node: &Node{Kind: NodeShared, Devices: 1, MemoryMiB: 10240},
			want: map[int]Share{0: {250, 20480}},
		},
		{
			name: "less memory: compute derived from it", pod: onNode(main(memory, "20Gi"), "0", "main=0:250m:20480Mi"), node: &Node{Kind: NodeShared, Devices: 1, MemoryMiB: 40960},
			want: map[int]Share{0: {500, 20480}},
		},
		{
			name: "less memory than was asked for: a whole device", pod: onNode(main(memory, "20Gi"), "0", "main=0:250m:20480Mi"), node: &Node{Kind: NodeShared, Devices: 1, MemoryMiB: 10240},
			want: map[int]Share{0: {1000, 20480}},
		},
		{
			name: "memory unknown", pod: onNode(main(milli, "500"), "0", "main=0:500m:20480Mi"), node: &Node{},
			want: map[int]Share{0: {500, 20480}},
		},
		{
			name: "less memory than may be asked for today", pod: onNode(main(memory, "10"), "0", "main=0:1m:1Mi"), node: a40(),
			want: map[int]Share{0: {1, 1}},
		},
		{
			name: "no record", pod: main(milli, "500"), node: a40(), wantErr: ErrUnrecorded,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			allocation, err := ParseAllocation(tt.pod)
			var got *PodUsage
			if err == nil {
				got, err = allocation.On(tt.node)
				if diff := cmp.Diff(tt.missing, allocation.Missing(tt.node)); diff != "" {
					t.Errorf("Unexpected missing UUIDs (-want,+got):\n%s", diff)
				}
				if n := testing.AllocsPerRun(10, func() { got, err = allocation.On(tt.node) }); n != 0 {
					t.Errorf("asked again it allocates %g times", n)
				}
			}
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("want error %v, got %v", tt.wantErr, err)
			}
			if err != nil {
				return
			}
			var want PodUsage
			for d, share := range tt.want {
				want[d] = share
			}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("Unexpected holding (-want,+got):\n%s", diff)
			}
		})
	}
}

// What Reserve promises is what is read of the bound pod.
func TestAllocationOfAnAssignment(t *testing.T) {
	pod := podOf(container("main", milli, "2000"), container("side", milli, "500"))
	request, err := ParsePod(pod, nil)
	must(t, err)
	for _, uuids := range [][]string{nil, {"GPU-a", "GPU-b", "GPU-c"}} {
		node := &Node{Kind: NodeShared, Devices: 3, MemoryMiB: 1000, UUIDs: uuids}
		state := usageOf(node)
		assignment, ok := Assign(BestFit{}, CandidateNode{Usage: &state}, PodRequest{Request: request})
		if !ok {
			t.Fatal("it does not fit")
		}
		pod.Annotations = assignment.Annotations(request, node)
		read, err := ParseAllocation(pod)
		must(t, err)
		if reserved := NewAllocation(request, &assignment, node); !reserved.Equal(read) || !read.Equal(reserved) {
			t.Errorf("reserved %+v, read %+v", reserved, read)
		}
		other := assignment
		other.Devices[1] = SetOf(0)
		if NewAllocation(request, &other, node).Equal(read) {
			t.Error("other devices are taken for the same")
		}
	}
}

func TestModelsWidened(t *testing.T) {
	models, err := ParseModels("T4,a100,NVIDIA-H100")
	must(t, err)
	for model, want := range map[string]string{"nvidia-h100-80gb": "nvidia-h100*", "nvidia-a100": "*a100*", "l4": "", "": ""} {
		if got := models.Widened(model); got != want {
			t.Errorf("%q: want %q, got %q", model, want, got)
		}
	}
}
