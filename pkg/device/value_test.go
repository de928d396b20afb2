// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

// TestWorth is the worth of a node to one class, in thousandths.
func TestWorth(t *testing.T) {
	cordoned := stateOf(1000, 1000)
	cordoned.cordoned = SetOf(0)
	memoryGone := stateOf(1000, 500)
	memoryGone.Take(0, Share{MemoryMiB: 15000})
	tests := []struct {
		name  string
		state Usage
		cpu   int64
		class Shape
		want  int64
	}{
		{name: "what is free on devices with room", state: stateOf(1000, 600, 400), cpu: 100000, class: Shape{CPUMilli: 1000, Devices: 1, Milli: 500}, want: 1600},
		{name: "a class that needs no CPU", state: stateOf(1000, 600), class: Shape{Devices: 1, Milli: 500}, want: 1600},
		{name: "no device has room", state: stateOf(400, 400), cpu: 100000, class: Shape{Devices: 1, Milli: 500}},
		{name: "not enough devices have room", state: stateOf(1000, 1000, 999), cpu: 100000, class: Shape{Devices: 4, Milli: 1000}},
		{name: "what is over beside a set of four is of no use", state: stateOf(1000, 1000, 1000, 1000, 1000, 1000, 1000, 500), cpu: 100000, class: Shape{CPUMilli: 1000, Devices: 4, Milli: 1000}, want: 4000},
		{name: "two sets of four", state: stateOf(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000), cpu: 100000, class: Shape{CPUMilli: 1000, Devices: 4, Milli: 1000}, want: 8000},
		{name: "not the CPU for one", state: stateOf(1000), cpu: 3999, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 500}},
		// One such pod takes 500; others take 5/3 as much for the same CPU.
		{name: "the CPU for one", state: stateOf(1000, 1000), cpu: 4000, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 500}, want: 833},
		{name: "the CPU for one and a half", state: stateOf(1000, 1000), cpu: 6000, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 500}, want: 1250},
		{name: "the CPU for all", state: stateOf(1000, 1000), cpu: 9600, class: Shape{CPUMilli: 4000, Devices: 1, Milli: 500}, want: 2000},
		{name: "the CPU for three devices and a third, of five", state: stateOf(1000, 1000, 1000, 1000, 1000), cpu: 4000, class: Shape{CPUMilli: 4000, Devices: 2, Milli: 1000}, want: 3333},
		{name: "more CPU than there is on earth", state: stateOf(1000), cpu: 1 << 62, class: Shape{CPUMilli: 1 << 50, Devices: 1, Milli: 500}, want: 833},
		{name: "a cordoned device", state: cordoned, cpu: 100000, class: Shape{Devices: 1, Milli: 500}, want: 1000},
		{name: "a device without memory", state: memoryGone, cpu: 100000, class: Shape{Devices: 1, Milli: 400}, want: 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := workloadOf(t, tt.class).On("", 16000)
			got := e.value(&tt.state, tt.cpu) / e.classes[0].weight
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// pricedExample is a workload on a cluster of two kinds, as the given node sees it.
func pricedExample(g generator, n *Node) *NodeWorkload {
	supply := []Supply{{Model: "g2", MemoryMiB: n.MemoryMiB, Devices: 1 + g.Int64N(100)}, {Model: "another", MemoryMiB: 1 + g.Int64N(100000), Devices: 1 + g.Int64N(100)}}
	return g.workload(n).AsSample(1).WithSupply(supply).On("g2", n.MemoryMiB)
}

// TestShareLosses: the way that looks at each class once for all devices gives
// what two measurements give.
func TestShareLosses(t *testing.T) {
	seen := 0
	for seed := range uint64(5000) {
		g := newGenerator(seed)
		n := g.node(MaxDevices)
		s := g.state(n)
		e := pricedExample(g, n)
		container := g.container(n)
		share, _ := container.On(n.MemoryMiB)
		candidates := s.Fitting(share)
		cpu := g.Int64N(40) * 1000
		cpuAfter := cpu - g.Int64N(8)*1000
		var got [MaxDevices]int64
		e.shareLosses(&s, candidates, share, cpu, cpuAfter, &got)
		for d := range candidates.All() {
			seen++
			after := s
			after.Take(d, share)
			if want := e.loss(&s, &after, cpu, cpuAfter); got[d] != want {
				t.Fatalf("seed %d, device %d: %d, want %d\nstate %+v\nshare %+v", seed, d, got[d], want, s, share)
			}
			if got[d] < 0 {
				t.Fatalf("seed %d, device %d: the node gains %d", seed, d, -got[d])
			}
		}
	}
	if seen < 5000 {
		t.Errorf("only %d candidates: the test hardly tests", seen)
	}
}

// TestGap: what runs out first counts, and memory that is derived never does.
func TestGap(t *testing.T) {
	for _, tt := range []struct {
		free       Share
		gap, taken int64
	}{
		{Share{500, 8000}, 500, 500},
		{Share{500, 4000}, 250, 500},
		{Share{300, 8000}, 300, 500},
		{Share{0, 8000}, 0, 500},
		{Share{-5, 8000}, 0, 500},
		{Share{500, -1}, 0, 500},
		{Share{1001, 17000}, 1000, 1000},
	} {
		if got := gap(tt.free, 16000); got != tt.gap {
			t.Errorf("%v is a gap of %d, want %d", tt.free, got, tt.gap)
		}
		if got := packedMilli(tt.free, 16000); tt.free.Milli > 0 && tt.free.MemoryMiB > 0 && got != tt.taken {
			t.Errorf("%v takes %d, want %d", tt.free, got, tt.taken)
		}
	}
	for seed := range uint64(2000) {
		g := newGenerator(seed)
		memory := 1000 + g.Int64N(200000)
		s := NewUsage(1, memory, 0)
		left := int64(MilliPerDevice)
		for range g.IntN(5) {
			container := ContainerRequest{Milli: g.milli()}
			share, _ := container.On(memory)
			if share.Milli > left {
				continue
			}
			s.Take(0, share)
			left -= share.Milli
			if got := gap(s.free[0], memory); got != left {
				t.Fatalf("seed %d: a gap of %d, want %d", seed, got, left)
			}
			if got := packedMilli(share, memory); got != share.Milli {
				t.Fatalf("seed %d: %d of %d MiB takes %d", seed, share.Milli, memory, got)
			}
		}
	}
}
