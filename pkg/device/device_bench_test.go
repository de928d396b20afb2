// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math/rand/v2"
	"testing"
)

// benchNode is a node with 8 devices, half full.
func benchNode() (*Node, Usage) {
	n := &Node{Kind: NodeShared, Devices: 8, MemoryMiB: 81920, Model: "nvidia-a100-sxm4-80gb"}
	s := usageOf(n)
	for i, milli := range []int64{1000, 1000, 700, 550, 500, 250, 0, 0} {
		s.Take(i, Share{Milli: milli, MemoryMiB: milli * n.MemoryMiB / MilliPerDevice})
	}
	return n, s
}

// benchWorkload is a workload of 20 shapes: pods without devices, shares, memory
// shares, whole devices and constrained ones.
func benchWorkload(tb testing.TB) *Workload {
	tb.Helper()
	a100, err := ParseModels("nvidia-a100*")
	must(tb, err)
	r := rand.New(rand.NewPCG(1, 2))
	var classes []Class
	for i := range 20 {
		shape := Shape{CPUMilli: 1000 + int64(r.IntN(16))*1000, Devices: 1}
		switch {
		case i < 2:
			shape.Devices = 0
		case i < 11:
			shape.Milli = 50 + int64(r.IntN(18))*50
		case i < 14:
			shape.MemoryMiB = 4096 + int64(r.IntN(8))*4096
		default:
			shape.Devices, shape.Milli = 1<<r.IntN(4), MilliPerDevice
		}
		if i%5 == 4 {
			shape.Models = a100
		}
		classes = append(classes, Class{Shape: shape, Weight: 1 + int64(r.IntN(100))})
	}
	w, err := NewWorkload(classes)
	must(tb, err)
	return w
}

// benchExpected is that workload on a cluster of two kinds of nodes.
func benchExpected(tb testing.TB, n *Node) *NodeWorkload {
	supply := []Supply{{Model: n.Model, MemoryMiB: n.MemoryMiB, Devices: 800}, {Model: "nvidia-t4", MemoryMiB: 15109, Devices: 800}}
	return benchWorkload(tb).WithSupply(supply).On(n.Model, n.MemoryMiB)
}

// benchPod is a request of the given asks.
func benchPod(containers ...ContainerRequest) *Request {
	for i := range containers {
		containers[i].Container = string(rune('a' + i))
		if containers[i].Devices == 0 {
			containers[i].Devices = 1
		}
	}
	return &Request{Kind: RequestShares, Containers: containers}
}

// benchPods are the pods to measure with. The model list is what a filter meets
// at its most expensive in practice.
func benchPods(tb testing.TB) []struct {
	name    string
	request *Request
} {
	tb.Helper()
	models, err := ParseModels("nvidia-h100*,nvidia-h200*,*a100*80gb")
	must(tb, err)
	constrained := benchPod(ContainerRequest{Milli: 300})
	constrained.Models, constrained.MinMemoryMiB = models, 40960
	return []struct {
		name    string
		request *Request
	}{
		{name: "share", request: benchPod(ContainerRequest{Milli: 300})},
		{name: "memory", request: benchPod(ContainerRequest{MemoryMiB: 10240})},
		{name: "whole", request: benchPod(ContainerRequest{Milli: 1000, Devices: 2})},
		{name: "constrained", request: constrained},
		{name: "lifecycle", request: benchPod(ContainerRequest{Kind: Init, Milli: 1000}, ContainerRequest{Kind: Sidecar, Milli: 100}, ContainerRequest{Milli: 400}, ContainerRequest{Milli: 600})},
	}
}

func BenchmarkCheck(b *testing.B) {
	n, s := benchNode()
	for _, pod := range benchPods(b) {
		b.Run("devices=8/pod="+pod.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rejection := check(n, &s, pod.request); rejection != Fits {
					b.Fatalf("rejected: %v", rejection)
				}
			}
		})
	}
}

func BenchmarkScore(b *testing.B) {
	n, s := benchNode()
	node := CandidateNode{
		Usage: &s, CPUMilli: 40000, MaxNode: MaxNode{CPUMilli: 128000, GPUMilli: 8000},
		Workload: benchExpected(b, n),
	}
	for _, strategy := range Strategies() {
		for _, pod := range benchPods(b) {
			b.Run("strategy="+strategy.String()+"/shapes=20/devices=8/pod="+pod.name, func(b *testing.B) {
				pod := PodRequest{Request: pod.request, CPUMilli: 8000}
				b.ReportAllocs()
				for b.Loop() {
					if score := strategy.Score(node, pod); score <= 0 || score > MaxGradientScore {
						b.Fatalf("score %d", score)
					}
				}
			})
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	n, s := benchNode()
	node := CandidateNode{
		Usage: &s, CPUMilli: 40000, MaxNode: MaxNode{CPUMilli: 128000, GPUMilli: 8000},
		Workload: benchExpected(b, n),
	}
	for _, pod := range benchPods(b) {
		b.Run("strategy=FragmentationGradient/devices=8/pod="+pod.name, func(b *testing.B) {
			pod := PodRequest{Request: pod.request, CPUMilli: 8000}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Assign(FragmentationGradient{}, node, pod); !ok {
					b.Fatal("no room")
				}
			}
		})
	}
}

func BenchmarkFragmentation(b *testing.B) {
	n, s := benchNode()
	e := benchWorkload(b).On(n.Model, n.MemoryMiB)
	b.ReportAllocs()
	for b.Loop() {
		if f := e.Fragmentation(&s, 40000); f.Total() <= 0 {
			b.Fatal("no fragmentation")
		}
	}
}

// TestHotPathDoesNotAllocate holds what the benchmarks only report.
func TestHotPathDoesNotAllocate(t *testing.T) {
	n, s := benchNode()
	node := CandidateNode{
		Usage: &s, CPUMilli: 40000, MaxNode: MaxNode{CPUMilli: 128000, GPUMilli: 8000},
		Workload: benchExpected(t, n),
	}
	for _, test := range benchPods(t) {
		t.Run(test.name, func(t *testing.T) {
			pod := PodRequest{Request: test.request, CPUMilli: 8000}
			if got := testing.AllocsPerRun(100, func() { check(n, &s, test.request) }); got != 0 {
				t.Errorf("Check allocates %v times", got)
			}
			for _, strategy := range Strategies() {
				if got := testing.AllocsPerRun(100, func() { strategy.Score(node, pod) }); got != 0 {
					t.Errorf("%v: Score allocates %v times", strategy, got)
				}
				if got := testing.AllocsPerRun(100, func() { Assign(strategy, node, pod) }); got != 0 {
					t.Errorf("%v: Assign allocates %v times", strategy, got)
				}
			}
		})
	}
}

// BenchmarkCheckHard is the most that one pod can cost a filter: the search runs
// out of its budget.
func BenchmarkCheckHard(b *testing.B) {
	n, s, r := hardPod()
	b.ReportAllocs()
	for b.Loop() {
		if check(n, &s, r) == Fits {
			b.Fatal("want no room")
		}
	}
}
