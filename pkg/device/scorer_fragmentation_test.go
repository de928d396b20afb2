// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

// TestFragmentationGradientPrefers: of two nodes, the first is better.
func TestFragmentationGradientPrefers(t *testing.T) {
	supply := []Supply{{Model: "plenty", MemoryMiB: 16000, Devices: 90}, {Model: "rare", MemoryMiB: 16000, Devices: 10}}
	share := func(milli, cpuMilli, weight int64) Class {
		return Class{Weight: weight, Shape: Shape{CPUMilli: cpuMilli, Devices: 1, Milli: milli}}
	}
	shares := []Class{share(810, 1000, 10), share(470, 1000, 10), share(320, 1000, 5), share(160, 1000, 1), share(1000, 1000, 10)}
	sets := []Class{share(500, 1000, 160), share(1000, 1000, 70), {Weight: 20, Shape: Shape{CPUMilli: 1000, Devices: 2, Milli: 1000}}, {Weight: 16, Shape: Shape{CPUMilli: 1000, Devices: 4, Milli: 1000}}, {Weight: 4, Shape: Shape{CPUMilli: 1000, Devices: 8, Milli: 1000}}}
	models := []Class{share(1000, 1000, 9), constrainedClass("rare", 1)}
	type node struct {
		free  Usage
		cpu   int64
		model string
	}
	pod := func(milli, cpuMilli int64, models ...string) PodRequest {
		request := &Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 1, Milli: milli}}}
		request.Models = newModels(models...)
		return PodRequest{CPUMilli: cpuMilli, Request: request}
	}
	four := stateOf(1000, 1000, 1000, 1000)
	tests := []struct {
		name          string
		classes       []Class
		demand        PodRequest
		better, worse node
	}{
		{
			name: "a share goes beside its complement", classes: shares, demand: pod(470, 1000),
			better: node{free: stateOf(530, 1000, 1000), cpu: 50000}, worse: node{free: stateOf(1000, 1000, 1000), cpu: 50000},
		},
		{
			name: "and not where it breaks a gap that others fill", classes: shares, demand: pod(320, 1000),
			better: node{free: stateOf(350, 1000), cpu: 50000}, worse: node{free: stateOf(530, 1000), cpu: 50000},
		},
		{
			name: "what is rare fills the gaps that nobody else can", classes: shares, demand: pod(160, 1000),
			better: node{free: stateOf(190, 1000), cpu: 50000}, worse: node{free: stateOf(320, 1000), cpu: 50000},
		},
		{
			name: "a device in use comes before a whole one", classes: shares, demand: pod(320, 1000),
			better: node{free: stateOf(680, 1000, 1000), cpu: 50000}, worse: node{free: stateOf(1000, 1000, 1000), cpu: 50000},
		},
		{
			name: "a share breaks four free devices before eight", classes: sets, demand: pod(500, 1000),
			better: node{free: stateOf(1000, 1000, 1000, 1000, 0, 0, 0, 0), cpu: 50000}, worse: node{free: stateOf(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000), cpu: 50000},
		},
		{
			name: "and five, of which one is over, before four", classes: sets, demand: pod(500, 1000),
			better: node{free: stateOf(1000, 1000, 1000, 1000, 1000, 0, 0, 0), cpu: 50000}, worse: node{free: stateOf(1000, 1000, 1000, 1000, 0, 0, 0, 0), cpu: 50000},
		},
		{
			name: "who could run elsewhere leaves a rare model", classes: models, demand: pod(1000, 1000),
			better: node{free: four, cpu: 50000, model: "plenty"}, worse: node{free: four, cpu: 50000, model: "rare"},
		},
		{
			name: "even if it would fit better there", classes: models, demand: pod(1000, 1000),
			better: node{free: four, cpu: 50000, model: "plenty"}, worse: node{free: stateOf(1000, 0, 0, 0), cpu: 1000, model: "rare"},
		},
		{
			name: "who insists on it does not mind that it is rare", classes: models, demand: pod(1000, 1000, "rare"),
			better: node{free: stateOf(1000, 0, 0, 0), cpu: 1000, model: "rare"}, worse: node{free: four, cpu: 50000, model: "rare"},
		},
		{
			name: "CPU is taken where devices do not need it", classes: []Class{share(1000, 10000, 1)}, demand: pod(1000, 30000),
			better: node{free: four, cpu: 80000}, worse: node{free: four, cpu: 40000},
		},
		{
			name: "also by pods without devices", classes: []Class{share(1000, 10000, 1)}, demand: PodRequest{CPUMilli: 20000, Request: &Request{}},
			better: node{free: stateOf(1000, 0, 0, 0), cpu: 60000}, worse: node{free: four, cpu: 40000},
		},
		{
			name: "of nodes that lose as much, the one with less left", classes: shares, demand: pod(1000, 1000),
			better: node{free: stateOf(1000, 0, 0), cpu: 50000}, worse: node{free: stateOf(1000, 1000, 1000), cpu: 50000},
		},
		{
			name: "nothing is expected: the one with less left", demand: pod(470, 1000),
			better: node{free: stateOf(530), cpu: 2000}, worse: node{free: stateOf(1000, 1000, 1000), cpu: 50000},
		},
		{
			name: "a node without room is the worst", classes: shares, demand: pod(470, 1000),
			better: node{free: four, cpu: 1 << 41}, worse: node{free: stateOf(400, 400, 400), cpu: 50000},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := NewWorkload(tt.classes)
			must(t, err)
			w = w.WithSupply(supply)
			score := func(n node) int64 {
				node := CandidateNode{Usage: &n.free, CPUMilli: n.cpu, MaxNode: testScale}
				if tt.classes != nil {
					node.Workload = w.On(n.model, 16000)
				}
				return FragmentationGradient{}.Score(node, tt.demand)
			}
			if better, worse := score(tt.better), score(tt.worse); better <= worse {
				t.Errorf("the better node scores %d, the worse one %d", better, worse)
			}
		})
	}
}

// TestFragmentationGradientAndTheSizeOfNodes: of nodes that nobody uses, a small
// one is no better than a large one, or the models that come in small nodes would
// be gone when somebody insists on one.
func TestFragmentationGradientAndTheSizeOfNodes(t *testing.T) {
	score := func(s Usage) int64 {
		return FragmentationGradient{}.Score(CandidateNode{Usage: &s, CPUMilli: 50000, MaxNode: testScale}, PodRequest{CPUMilli: 1000, Request: &Request{}})
	}
	small, large, used := score(stateOf(1000)), score(stateOf(1000, 1000, 1000, 1000)), score(stateOf(1000, 1000, 1000, 500))
	if small != large || used <= large {
		t.Errorf("the small node scores %d, the large one %d, and partly used %d", small, large, used)
	}
}

// TestFragmentationGradientIsWhatAssignCosts: the score is that of the devices
// that Assign gives, whatever the pod, so that a node is not praised for one
// placement and used for another.
func TestFragmentationGradientIsWhatAssignCosts(t *testing.T) {
	seen := 0
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		n := g.node(8)
		s := g.state(n)
		r := g.request(n, 1+g.IntN(3))
		pod := PodRequest{Request: r, CPUMilli: g.Int64N(8) * 1000}
		node := CandidateNode{Usage: &s, CPUMilli: g.Int64N(40) * 1000, MaxNode: testScale, Workload: pricedExample(g, n)}
		assignment, ok := Assign(FragmentationGradient{}, node, pod)
		if !ok {
			continue
		}
		seen++
		after := s
		holding := assignment.PodUsage(r.Containers)
		after.Add(&holding)
		e := node.Workload
		cost := e.loss(&s, &after, node.CPUMilli, node.CPUMilli-pod.CPUMilli) + leftoverCost(node, pod) +
			e.scarcity*r.AtPeak(n.MemoryMiB).Milli/MilliPerDevice
		if got, want := (FragmentationGradient{}).Score(node, pod), max(0, MaxGradientScore-cost); got != want {
			t.Fatalf("seed %d: score %d, the assignment costs %d: want %d", seed, got, cost, want)
		}
	}
	if seen < 1000 {
		t.Errorf("only %d pods fit: the test hardly tests", seen)
	}
}

// TestFragmentationGradientChoosesTheLeastLoss: no other device would cost less.
func TestFragmentationGradientChoosesTheLeastLoss(t *testing.T) {
	for seed := range uint64(3000) {
		g := newGenerator(seed)
		n := g.node(8)
		s := g.state(n)
		r := &Request{Kind: RequestShares, Containers: []ContainerRequest{g.container(n)}}
		share, _ := r.Containers[0].On(n.MemoryMiB)
		node := CandidateNode{Usage: &s, CPUMilli: g.Int64N(40) * 1000, MaxNode: testScale, Workload: pricedExample(g, n)}
		assignment, ok := Assign(FragmentationGradient{}, node, PodRequest{Request: r})
		if !ok || share.Milli == MilliPerDevice {
			continue
		}
		loss := func(d int) int64 {
			after := s
			after.Take(d, share)
			return node.Workload.loss(&s, &after, node.CPUMilli, node.CPUMilli)
		}
		chosen := loss(assignment.Devices[0].Lowest())
		for d := range s.Fitting(share).All() {
			if other := loss(d); other < chosen {
				t.Fatalf("seed %d: device %d costs %d, the chosen one %d", seed, d, other, chosen)
			}
		}
	}
}
