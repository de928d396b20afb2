// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/pkg/device"
)

var testScale = device.MaxNode{CPUMilli: 100000, GPUMilli: 8000}

// stateOf is a node whose devices have so many thousandths left, of 16,000 MiB each.
func stateOf(free ...int64) device.Usage {
	s := device.NewUsage(len(free), 16000, 0)
	for i, milli := range free {
		s.Take(i, device.Share{Milli: 1000 - milli, MemoryMiB: 16 * (1000 - milli)})
	}
	return s
}

// shares is a pod with shares of devices and 10 CPUs.
func shares(milli ...int64) device.PodRequest {
	r := &device.Request{Kind: device.RequestShares}
	for _, m := range milli {
		r.Containers = append(r.Containers, device.ContainerRequest{Devices: 1, Milli: m})
	}
	return device.PodRequest{CPUMilli: 10000, Request: r}
}

// expect is a workload of one shape, as the nodes of stateOf see it.
func expect(t *testing.T, shape device.Shape) *device.NodeWorkload {
	t.Helper()
	w, err := device.NewWorkload([]device.Class{{Shape: shape, Weight: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return w.On("", 16000)
}

func TestPublishedScore(t *testing.T) {
	halves := expect(t, device.Shape{Devices: 1, Milli: 500})
	wholes := expect(t, device.Shape{CPUMilli: 20000, Devices: 1, Milli: 1000})
	sigmoid := func(devices float64) int64 { return int64(100 / (1 + math.Exp(-devices))) }
	tests := []struct {
		name     string
		state    device.Usage
		cpu      int64
		expected *device.NodeWorkload
		demand   device.PodRequest
		want     int64
	}{
		{name: "nothing changes", state: stateOf(1000), cpu: 50000, expected: halves, demand: shares(500), want: 50},
		{name: "nothing is expected", state: stateOf(1000), cpu: 50000, expected: nil, demand: shares(500), want: 50},
		{name: "the best device counts: a fragment is used up", state: stateOf(1000, 300), cpu: 50000, expected: halves, demand: shares(300), want: sigmoid(0.3)},
		{name: "a fragment is made on any device", state: stateOf(1000, 600), cpu: 50000, expected: halves, demand: shares(550), want: sigmoid(-0.05)},
		{name: "the last device for whole ones is broken", state: stateOf(1000), cpu: 50000, expected: wholes, demand: shares(100), want: sigmoid(-0.9)},
		{name: "a pod without devices takes the CPU", state: stateOf(1000), cpu: 25000, expected: wholes, demand: device.PodRequest{Request: &device.Request{}, CPUMilli: 10000}, want: sigmoid(-1)},
		{name: "a pod of two shares", state: stateOf(500, 300), cpu: 50000, expected: halves, demand: shares(500, 300), want: sigmoid(0.3)},
		{name: "no room", state: stateOf(100), cpu: 50000, expected: halves, demand: shares(500), want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			input := device.CandidateNode{Usage: &tt.state, CPUMilli: tt.cpu, MaxNode: testScale, Workload: tt.expected}
			packed := Published{}.Score(input, tt.demand)
			if got := packed / bestFitPoints; got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if got, want := packed%bestFitPoints, (device.BestFit{}).Score(input, tt.demand); got != want {
				t.Errorf("tie-break %d, want best-fit's %d", got, want)
			}
		})
	}
}

// TestPackedScore: fragmentation decides, best-fit among its ties.
func TestPackedScore(t *testing.T) {
	halves := expect(t, device.Shape{Devices: 1, Milli: 500})
	score := func(s device.Usage, cpu int64) int64 {
		return Published{}.Score(device.CandidateNode{Usage: &s, CPUMilli: cpu, MaxNode: testScale, Workload: halves}, shares(300))
	}
	usesFragment := score(stateOf(300, 1000, 1000, 1000), 100000)
	tight, loose := score(stateOf(1000), 10000), score(stateOf(1000, 1000), 100000)
	if usesFragment <= tight || tight <= loose {
		t.Errorf("want a fragment used (%d) before a tight node (%d) before a loose one (%d)", usesFragment, tight, loose)
	}
}

func TestDotProductScore(t *testing.T) {
	for _, tt := range []struct {
		state  device.Usage
		demand device.PodRequest
		want   int64
	}{
		// 100 * (1 - (0.5*0.1 + 0.25*0.125)/2) = 95.9375
		{stateOf(1000, 1000), shares(1000), 95},
		{stateOf(1000), device.PodRequest{Request: &device.Request{}}, 100},
	} {
		if got := (DotProduct{}).Score(device.CandidateNode{Usage: &tt.state, CPUMilli: 50000, MaxNode: testScale}, tt.demand); got != tt.want {
			t.Errorf("got %d, want %d", got, tt.want)
		}
	}
}

// TestPick: each picks its device, and Random any that has room, the same ones with the
// same seed.
func TestPick(t *testing.T) {
	halves := expect(t, device.Shape{Devices: 1, Milli: 500})
	for _, tt := range []struct {
		strategy device.Strategy
		free     []int64
		milli    int64
		want     int
	}{
		{strategy: Published{}, free: []int64{1000, 700, 350}, milli: 300, want: 2},
		{strategy: Published{}, free: []int64{600, 1000}, milli: 500, want: 1},
		{strategy: Published{}, free: []int64{1000, 1000}, milli: 500, want: 0},
		{strategy: DotProduct{}, free: []int64{1000, 500, 400, 500}, milli: 450, want: 1},
	} {
		s := stateOf(tt.free...)
		a, ok := device.Assign(tt.strategy, device.CandidateNode{Usage: &s, CPUMilli: 50000, MaxNode: testScale, Workload: halves}, shares(tt.milli))
		if !ok || a.Devices[0] != device.SetOf(tt.want) {
			t.Errorf("%s of %v: got %b %t, want device %d", tt.strategy, tt.free, a.Devices[0], ok, tt.want)
		}
	}
	draws := func() (devices [4]int) {
		s := stateOf(1000, 100, 1000, 1000)
		random := Random{rand.New(rand.NewPCG(1, 0))} //nolint:gosec // reproducible on purpose
		for range 6000 {
			a, _ := device.Assign(random, device.CandidateNode{Usage: &s}, shares(500))
			devices[a.Devices[0].Lowest()]++
		}
		return devices
	}
	first := draws()
	for i, n := range first {
		if want := i != 1; (n > 1700 && n < 2300) != want || !want && n != 0 {
			t.Errorf("device %d was drawn %d times of 6000", i, n)
		}
	}
	if first != draws() {
		t.Error("the same seed draws differently")
	}
}
