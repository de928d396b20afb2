// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

func TestRecords(t *testing.T) {
	records := []Record{
		{Container: "trainer", Devices: SetOf(0, 1), Share: Share{Milli: 1000, MemoryMiB: 81920}},
		{Container: "loader-2", Devices: SetOf(15), Share: Share{Milli: 1, MemoryMiB: 1}},
	}
	text := FormatRecords(records)
	if want := "trainer=0,1:1000m:81920Mi;loader-2=15:1m:1Mi"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	got, err := ParseRecords(text)
	must(t, err)
	if diff := cmp.Diff(records, got); diff != "" {
		t.Errorf("unexpected records (-want,+got):\n%s", diff)
	}
}

func TestParseRecordsRefuses(t *testing.T) {
	many := make([]string, 0, MaxContainers+1)
	for i := range MaxContainers + 1 {
		many = append(many, "c"+strings.Repeat("x", i)+"=0:1m:1Mi")
	}
	tests := []struct {
		name, text, want string
	}{
		{name: "nothing", text: "", want: "is empty"},
		{name: "an entry of nothing", text: "a=0:1m:1Mi;", want: `entry 1: "" does not begin`},
		{name: "no container", text: "=0:1m:1Mi", want: `entry 0: "=0:1m:1Mi" does not begin`},
		{name: "a container that cannot be", text: "A_b=0:1m:1Mi", want: "entry 0: \"A_b=0:1m:1Mi\" does not begin"},
		{name: "a container twice", text: "a=0:1m:1Mi;a=1:1m:1Mi", want: `entry 1: container "a" occurs twice`},
		{name: "too many containers", text: strings.Join(many, ";"), want: "has more than 16 entries"},
		{name: "a field too few", text: "a=0:1m", want: "has 2 fields after ="},
		{name: "a field too many", text: "a=0:1m:1Mi:", want: "has 4 fields after ="},
		{name: "no device", text: "a=:1m:1Mi", want: `device "" is not`},
		{name: "a device that cannot be", text: "a=16:1m:1Mi", want: `device "16" is not an index from 0 to 15`},
		{name: "a device twice", text: "a=1,1:1000m:1Mi", want: "not in ascending order"},
		{name: "devices out of order", text: "a=2,1:1000m:1Mi", want: "not in ascending order"},
		{name: "a leading zero", text: "a=01:1m:1Mi", want: `device "01" is not`},
		{name: "a sign", text: "a=+1:1m:1Mi", want: `device "+1" is not`},
		{name: "a space", text: "a= 1:1m:1Mi", want: `device " 1" is not`},
		{name: "digits of another script", text: "a=\u0661:1m:1Mi", want: "is not an index"},
		{name: "no compute", text: "a=0:0m:1Mi", want: `compute "0m" is not`},
		{name: "compute above a device", text: "a=0:1001m:1Mi", want: `compute "1001m" is not`},
		{name: "compute without its unit", text: "a=0:500:1Mi", want: `compute "500" is not`},
		{name: "compute beyond int64", text: "a=0:99999999999999999999m:1Mi", want: "is not 1m to 1000m"},
		{name: "no memory", text: "a=0:1m:0Mi", want: `memory "0Mi" is not`},
		{name: "memory in another unit", text: "a=0:1m:1Gi", want: `memory "1Gi" is not`},
		{name: "memory beyond belief", text: "a=0:1m:1073741825Mi", want: "is not 1Mi to 1073741824Mi"},
		{name: "shares of two devices", text: "a=0,1:500m:1Mi", want: "2 devices with 500m each"},
		{name: "endless", text: strings.Repeat("a", 5000), want: "has 5000 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRecords(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v and error %v, want %q", got, err, tt.want)
			}
		})
	}
}

// lifeCycleRequest is a pod with a container of each kind.
func lifeCycleRequest() *Request {
	return &Request{Kind: RequestShares, Containers: []ContainerRequest{
		{Container: "warm", Kind: Init, Devices: 1, Milli: 1000},
		{Container: "watch", Kind: Sidecar, Devices: 1, MemoryMiB: 1024},
		{Container: "main", Devices: 2, Milli: 1000, MemoryMiB: 4096},
	}}
}

func TestAnnotations(t *testing.T) {
	a := Assignment{}
	a.Devices[0], a.Shares[0] = SetOf(1), Share{1000, 16384}
	a.Devices[1], a.Shares[1] = SetOf(0), Share{62, 1024}
	a.Devices[2], a.Shares[2] = SetOf(1, 3), Share{1000, 4096}
	r := lifeCycleRequest()
	record := "warm=1:1000m:16384Mi;watch=0:62m:1024Mi;main=1,3:1000m:4096Mi"
	tests := []struct {
		name string
		node *Node
		want map[string]string
	}{
		{
			name: "by index",
			node: &Node{},
			want: map[string]string{
				"berth.dev/gpu-assigned": record, "gpu.berth.dev/warm": "1", "gpu.berth.dev/watch": "0", "gpu.berth.dev/main": "1,3",
			},
		},
		{
			name: "by UUID",
			node: &Node{UUIDs: []string{"GPU-a0", "GPU-b1", "GPU-c2", "GPU-d3"}},
			want: map[string]string{
				"berth.dev/gpu-assigned": record, "gpu.berth.dev/warm": "GPU-b1", "gpu.berth.dev/watch": "GPU-a0", "gpu.berth.dev/main": "GPU-b1,GPU-d3",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotations := a.Annotations(r, tt.node)
			if diff := cmp.Diff(tt.want, annotations); diff != "" {
				t.Errorf("unexpected annotations (-want,+got):\n%s", diff)
			}
			got, err := ParseAssignment(annotations, r)
			must(t, err)
			if diff := cmp.Diff(a, got); diff != "" {
				t.Errorf("unexpected assignment (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestParseAssignmentRefuses(t *testing.T) {
	const assigned = names.GPUAssignedAnnotation
	reads := func(container string) string { return names.GPUDevicesAnnotationPrefix + container }
	tests := []struct {
		name   string
		change map[string]string
		remove string
		want   string
	}{
		{name: "no record", remove: assigned, want: ErrUnrecorded.Error()},
		{name: "a record that is none", change: map[string]string{assigned: "0"}, want: `annotation berth.dev/gpu-assigned entry 0: "0" does not begin`},
		{name: "a container is missing", change: map[string]string{assigned: "warm=1:1000m:16384Mi;watch=0:62m:1024Mi"}, want: "has 2 entries, and 3 containers ask"},
		{name: "a container that does not ask", change: map[string]string{assigned: "warm=1:1000m:16384Mi;watch=0:62m:1024Mi;proxy=1,3:1000m:4096Mi"}, want: `container "proxy" stands where "main" asks`},
		{name: "containers out of order", change: map[string]string{assigned: "watch=0:62m:1024Mi;warm=1:1000m:16384Mi;main=1,3:1000m:4096Mi"}, want: `container "watch" stands where "warm" asks`},
		{name: "a device too few", change: map[string]string{assigned: "warm=1:1000m:16384Mi;watch=0:62m:1024Mi;main=1:1000m:4096Mi"}, want: `container "main" has 1 devices and asks for 2`},
		{name: "less compute than asked for", change: map[string]string{assigned: "warm=1:1m:16384Mi;watch=0:62m:1024Mi;main=1,3:1000m:4096Mi"}, want: `container "warm" has 1m and asks for 1000m`},
		{name: "less memory than asked for", change: map[string]string{assigned: "warm=1:1000m:16384Mi;watch=0:62m:1Mi;main=1,3:1000m:4096Mi"}, want: `container "watch" has 1Mi and asks for 1024Mi`},
		{name: "the container reads nothing", remove: reads("main"), want: "annotation gpu.berth.dev/main is missing"},
		{name: "the container reads other devices", change: map[string]string{reads("main"): "0,1"}, want: `annotation gpu.berth.dev/main "0,1" is neither the recorded devices "1,3" nor UUIDs`},
		{name: "the container reads more devices", change: map[string]string{reads("watch"): "0,1"}, want: "names 2 devices, and the record 1"},
		{name: "the container reads all devices", change: map[string]string{reads("watch"): "all"}, want: `"all" is neither`},
		{name: "the container reads one UUID twice", change: map[string]string{reads("main"): "GPU-a,GPU-a"}, want: "names a device twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotations := map[string]string{
				assigned:      "warm=1:1000m:16384Mi;watch=0:62m:1024Mi;main=1,3:1000m:4096Mi",
				reads("warm"): "1", reads("watch"): "0", reads("main"): "1,3",
			}
			if _, err := ParseAssignment(annotations, lifeCycleRequest()); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			maps.Copy(annotations, tt.change)
			delete(annotations, tt.remove)
			got, err := ParseAssignment(annotations, lifeCycleRequest())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v and error %v, want %q", got, err, tt.want)
			}
			if errors.Is(err, ErrUnrecorded) != (tt.remove == assigned) {
				t.Errorf("ErrUnrecorded for %v", err)
			}
			if got != (Assignment{}) {
				t.Errorf("half an assignment was returned: %+v", got)
			}
		})
	}
}

// TestAnnotationsRoundTrip over drawn nodes and pods: what a Binding writes reads
// back as what was assigned.
func TestAnnotationsRoundTrip(t *testing.T) {
	read := 0
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		n := g.node(MaxDevices)
		s := usageOf(n)
		r := g.request(n, MaxContainers)
		a, ok := Assign(LeastAllocated{}, CandidateNode{Usage: &s}, PodRequest{Request: r})
		if !ok {
			continue
		}
		read++
		got, err := ParseAssignment(a.Annotations(r, n), r)
		if err != nil || got != a {
			t.Fatalf("seed %d: got %+v, %v, want %+v", seed, got, err, a)
		}
	}
	if read < 1000 {
		t.Errorf("only %d assignments: the test hardly tests", read)
	}
}
