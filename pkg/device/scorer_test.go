// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

var testScale = MaxNode{CPUMilli: 100000, GPUMilli: 8000}

// shareOf is a pod with one share and 10 CPUs.
func shareOf(milli int64) PodRequest {
	return PodRequest{CPUMilli: 10000, Request: &Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 1, Milli: milli}}}}
}

func TestScores(t *testing.T) {
	cordoned := stateOf(1000, 500)
	cordoned.cordoned = SetOf(0)
	none := PodRequest{Request: &Request{}}
	whole := PodRequest{Request: &Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 2, Milli: 1000}}}}
	tests := []struct {
		name     string
		strategy Strategy
		state    Usage
		cpu      int64
		demand   PodRequest
		want     int64
	}{
		// 100 * (1 - (50000-10000)/200000 - (1500-500)/16000) = 73.75
		{name: "best fit", strategy: BestFit{}, state: stateOf(1000, 500), cpu: 50000, demand: shareOf(500), want: 73},
		{name: "best fit that leaves nothing", strategy: BestFit{}, state: stateOf(500), cpu: 10000, demand: shareOf(500), want: 100},
		{name: "best fit on the largest node, empty", strategy: BestFit{}, state: stateOf(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000), cpu: 100000, demand: none, want: 0},
		{name: "best fit of two whole devices", strategy: BestFit{}, state: stateOf(1000, 1000), cpu: 0, demand: whole, want: 100},
		{name: "best fit on a node above the scale", strategy: BestFit{}, state: stateOf(1000), cpu: 1 << 40, demand: none, want: 43},
		// used 500+500 of 2000 after
		{name: "most allocated", strategy: MostAllocated{}, state: stateOf(1000, 500), demand: shareOf(500), want: 50},
		{name: "most allocated, a cordoned device aside", strategy: MostAllocated{}, state: cordoned, demand: shareOf(250), want: 75},
		{name: "most allocated that leaves nothing", strategy: MostAllocated{}, state: stateOf(1000, 1000), demand: whole, want: 100},
		{name: "most allocated without devices", strategy: MostAllocated{}, state: Usage{}, demand: none, want: 0},
		{name: "least allocated", strategy: LeastAllocated{}, state: stateOf(1000, 500), demand: shareOf(500), want: 50},
		{name: "least allocated on an empty node", strategy: LeastAllocated{}, state: stateOf(1000, 1000), demand: none, want: 100},
		{name: "least allocated without devices", strategy: LeastAllocated{}, state: Usage{}, demand: none, want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.strategy.Score(CandidateNode{Usage: &tt.state, CPUMilli: tt.cpu, MaxNode: testScale}, tt.demand)
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestScoresStayInRange, whatever the node, the pod and the scale.
func TestScoresStayInRange(t *testing.T) {
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		n := g.node(8)
		s := g.state(n)
		r := g.request(n, 4)
		if !s.Fits(r) {
			continue
		}
		node := testSite(n, &s, g.workload(n).WithSupply([]Supply{{Model: n.Model, MemoryMiB: n.MemoryMiB, Devices: 8}}))
		node.CPUMilli = g.oneOf(-1000, 0, 1, 50000, 1<<40)
		node.MaxNode = MaxNode{CPUMilli: g.oneOf(-1, 0, 1, 100000, 1<<40), GPUMilli: g.oneOf(-1, 0, 8000, 16000)}
		for _, strategy := range allStrategies {
			got := strategy.Score(node, PodRequest{Request: r, CPUMilli: g.oneOf(0, 1000, 1<<40)})
			limit := int64(MaxScore)
			if strategy == (FragmentationGradient{}) {
				limit = MaxGradientScore
			}
			if got < 0 || got > limit {
				t.Fatalf("seed %d: %v scores %d", seed, strategy, got)
			}
		}
	}
}

func TestChooseDevice(t *testing.T) {
	halves := workloadOf(t, Shape{Devices: 1, Milli: 500}).On("", 16000)
	tests := []struct {
		strategy Strategy
		free     []int64
		milli    int64
		want     int
	}{
		{strategy: FragmentationGradient{}, free: []int64{1000, 700, 350}, milli: 300, want: 2},
		{strategy: FragmentationGradient{}, free: []int64{600, 1000}, milli: 500, want: 1},
		{strategy: FragmentationGradient{}, free: []int64{1000, 1000}, milli: 500, want: 0},
		{strategy: BestFit{}, free: []int64{1000, 500, 400, 500}, milli: 450, want: 1},
		{strategy: MostAllocated{}, free: []int64{1000, 500, 700, 500}, milli: 450, want: 1},
		{strategy: LeastAllocated{}, free: []int64{400, 500, 700, 700}, milli: 350, want: 2},
	}
	for _, tt := range tests {
		t.Run(tt.strategy.String(), func(t *testing.T) {
			s := stateOf(tt.free...)
			a, ok := Assign(tt.strategy, CandidateNode{Usage: &s, CPUMilli: 50000, MaxNode: testScale, Workload: halves}, shareOf(tt.milli))
			if !ok || a.Devices[0] != SetOf(tt.want) {
				t.Errorf("got %b %t, want device %d", a.Devices[0], ok, tt.want)
			}
		})
	}
}

// TestMemoryChoosesBetweenDevices that have the same compute left.
func TestMemoryChoosesBetweenDevices(t *testing.T) {
	s := stateOf(800, 800, 800)
	s.Take(1, Share{MemoryMiB: 4000})
	for strategy, want := range map[Strategy]int{BestFit{}: 1, MostAllocated{}: 1, LeastAllocated{}: 0} {
		if a, _ := Assign(strategy, CandidateNode{Usage: &s}, shareOf(200)); a.Devices[0] != SetOf(want) {
			t.Errorf("%v: got %b, want device %d", strategy, a.Devices[0], want)
		}
	}
}

func TestStrategyNames(t *testing.T) {
	for _, strategy := range allStrategies {
		if got, err := ParseStrategy(strategy.String()); err != nil || got != strategy {
			t.Errorf("%v parses to %v, %v", strategy, got, err)
		}
	}
	if _, err := ParseStrategy("bestfit"); err == nil {
		t.Error("an unknown name was accepted")
	}
}
