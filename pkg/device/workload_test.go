// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewWorkloadRefuses(t *testing.T) {
	tests := []struct {
		name  string
		class Class
		want  string
	}{
		{name: "no weight", class: Class{}, want: "class 1: weight 0 must be"},
		{name: "a weight beyond exact sums", class: Class{Weight: 1<<40 + 1}, want: "class 1: weight"},
		{name: "weights beyond exact sums", class: Class{Weight: 1 << 40}, want: "class 1: the weights up to here exceed"},
		{name: "negative CPU", class: Class{Weight: 1, Shape: Shape{CPUMilli: -1}}, want: "class 1: CPU -1m must not be negative"},
		{name: "more devices than a node", class: Class{Weight: 1, Shape: Shape{Devices: 17, Milli: 1000}}, want: "class 1: 17 devices must be"},
		{name: "more than a device", class: Class{Weight: 1, Shape: Shape{Devices: 1, Milli: 1500}}, want: "class 1: 1500 thousandths"},
		{name: "negative memory", class: Class{Weight: 1, Shape: Shape{Devices: 1, MemoryMiB: -1}}, want: "class 1: -1 MiB"},
		{name: "a device and nothing of it", class: Class{Weight: 1, Shape: Shape{Devices: 1}}, want: "class 1: 1 devices with 0 thousandths and 0 MiB each"},
		{name: "a share of no device", class: Class{Weight: 1, Shape: Shape{Milli: 500}}, want: "class 1: 0 devices with 500"},
		{name: "shares of several devices", class: Class{Weight: 1, Shape: Shape{Devices: 2, Milli: 500}}, want: "class 1: 2 devices with 500 thousandths each: if there is more than one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewWorkload([]Class{{Weight: 1}, tt.class})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTypical(t *testing.T) {
	class := func(weight, cpu int64) Class { return Class{Weight: weight, Shape: Shape{CPUMilli: cpu}} }
	w, err := NewWorkload([]Class{class(5, 1), class(60, 2), class(5, 3), class(30, 4)})
	must(t, err)
	tests := []struct {
		percent int
		want    []int64
	}{
		{percent: 0, want: nil},
		{percent: 1, want: []int64{2}},
		{percent: 60, want: []int64{2}},
		{percent: 61, want: []int64{2, 4}},
		{percent: 95, want: []int64{2, 4, 3}},
		{percent: 96, want: []int64{2, 4, 3, 1}},
		{percent: 100, want: []int64{2, 4, 3, 1}},
	}
	for _, tt := range tests {
		typical := w.Typical(tt.percent)
		var got []int64
		var weight int64
		for _, c := range typical.Classes() {
			got = append(got, c.CPUMilli)
			weight += c.Weight
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d %% (-want,+got):\n%s", tt.percent, diff)
		}
		if weight != typical.weight {
			t.Errorf("%d %%: weight %d of classes that sum to %d", tt.percent, typical.weight, weight)
		}
	}
}

// TestWorkloadOrder: the same classes in any order are the same workload, and the
// caller's slice is left alone.
func TestWorkloadOrder(t *testing.T) {
	g := newGenerator(1)
	n := g.node(8)
	classes := g.workload(n).Classes()
	want := slices.Clone(classes)
	for range 20 {
		g.Shuffle(len(classes), func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
		given := slices.Clone(classes)
		w, err := NewWorkload(classes)
		must(t, err)
		if diff := cmp.Diff(want, w.Classes(), compareModels); diff != "" {
			t.Fatalf("the order matters (-want,+got):\n%s", diff)
		}
		if diff := cmp.Diff(given, classes, compareModels); diff != "" {
			t.Fatalf("the argument was changed:\n%s", diff)
		}
	}
}

func TestShapeOf(t *testing.T) {
	models := newModels("a100")
	tests := []struct {
		name    string
		request Request
		want    Shape
	}{
		{name: "no devices", want: Shape{CPUMilli: 4000}},
		{
			name:    "a share with constraints",
			request: Request{Containers: []ContainerRequest{{Devices: 1, Milli: 300, MemoryMiB: 10}}, Models: models, MinMemoryMiB: 40},
			want:    Shape{CPUMilli: 4000, Devices: 1, Milli: 300, MemoryMiB: 10, Models: models, MinMemoryMiB: 40},
		},
		{
			name:    "whole devices of several containers",
			request: Request{Containers: []ContainerRequest{{Kind: Init, Devices: 4, Milli: 1000}, {Devices: 2, Milli: 1000}, {Devices: 3, Milli: 1000}}},
			want:    Shape{CPUMilli: 4000, Devices: 5, Milli: 1000},
		},
		{
			name:    "whole devices with the memory that is needed of them",
			request: Request{Containers: []ContainerRequest{{Devices: 2, Milli: 1000, MemoryMiB: 10240}}},
			want:    Shape{CPUMilli: 4000, Devices: 2, Milli: 1000, MemoryMiB: 10240},
		},
		{
			name:    "the largest of several shares",
			request: Request{Containers: []ContainerRequest{{Devices: 1, Milli: 300}, {Devices: 1, Milli: 700}, {Devices: 1, Milli: 500}}},
			want:    Shape{CPUMilli: 4000, Devices: 1, Milli: 700},
		},
		{
			name:    "whole devices beside a share",
			request: Request{Containers: []ContainerRequest{{Devices: 1, Milli: 300}, {Devices: 2, Milli: 1000}}},
			want:    Shape{CPUMilli: 4000, Devices: 2, Milli: 1000},
		},
		{
			name:    "more of a device plugin's devices than the model holds",
			request: Request{Kind: RequestDevicePlugin, Containers: []ContainerRequest{{Devices: 40, Milli: 1000}}},
			want:    Shape{CPUMilli: 4000, Devices: 16, Milli: 1000},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ShapeOf(PodRequest{Request: &tt.request, CPUMilli: 4000})
			if diff := cmp.Diff(tt.want, got, compareModels); diff != "" {
				t.Errorf("unexpected shape (-want,+got):\n%s", diff)
			}
			if _, err := NewWorkload([]Class{{Shape: got, Weight: 1}}); err != nil {
				t.Errorf("no class: %v", err)
			}
		})
	}
}
