// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allStrategies are the strategies to test with.
var allStrategies = strategies()

// testSite is a site with everything that some strategy reads.
func testSite(n *Node, s *Usage, w *Workload) CandidateNode {
	return CandidateNode{Usage: s, CPUMilli: 32000, MaxNode: MaxNode{CPUMilli: 128000, GPUMilli: 8000}, Workload: w.On(n.Model, n.MemoryMiB)}
}

// phases returns, computed from the definition, what the pod uses of each device
// at each moment of its life: while each ordinary init container runs, and at the
// end with all that runs to the end.
func phases(r *Request, a *Assignment) [][MaxDevices]Share {
	var moments [][MaxDevices]Share
	use := func(upTo int, also func(i int) bool) {
		var used [MaxDevices]Share
		for i := range upTo {
			if !also(i) {
				continue
			}
			for d := range MaxDevices {
				if a.Devices[i].Has(d) {
					used[d].Milli += a.Shares[i].Milli
					used[d].MemoryMiB += a.Shares[i].MemoryMiB
				}
			}
		}
		moments = append(moments, used)
	}
	for k := range r.Containers {
		if r.Containers[k].Kind == Init {
			use(k+1, func(i int) bool { return i == k || r.Containers[i].Kind == Sidecar })
		}
	}
	use(len(r.Containers), func(i int) bool { return r.Containers[i].Kind != Init })
	return moments
}

// TestAssign checks, over drawn nodes and pods and with every strategy, what an
// assignment promises.
func TestAssign(t *testing.T) {
	rounds := 30000
	if testing.Short() {
		rounds = 3000
	}
	placed := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		n := g.node(8)
		before := g.state(n)
		r := g.request(n, 5)
		fits := check(n, &before, r) == Fits
		for _, strategy := range allStrategies {
			state := before
			a, ok := Assign(strategy, testSite(n, &state, g.workload(n)), PodRequest{Request: r, CPUMilli: 1000})
			if ok != fits {
				t.Fatalf("seed %d, %v: assigned %t, fits %t", seed, strategy, ok, fits)
			}
			if state != before {
				t.Fatalf("seed %d, %v: assignment changed the state", seed, strategy)
			}
			if !ok {
				continue
			}
			placed++
			if problem := checkAssignment(n, &before, r, &a); problem != "" {
				t.Fatalf("seed %d, %v: %s\nnode %+v\nstate %+v\nrequest %+v\nassignment %+v", seed, strategy, problem, n, before, r, a)
			}
			holding := a.PodUsage(r.Containers)
			state.Add(&holding)
			state.Remove(&holding)
			if state != before {
				t.Fatalf("seed %d, %v: taking and releasing is no identity", seed, strategy)
			}
		}
	}
	if placed < rounds {
		t.Errorf("only %d of %d pods were placed: the test hardly tests", placed, rounds*len(allStrategies))
	}
}

// checkAssignment returns what is wrong with an assignment, computed apart from
// the code under test.
func checkAssignment(n *Node, before *Usage, r *Request, a *Assignment) string {
	for i := range r.Containers {
		if a.Devices[i].Len() != r.Containers[i].Devices {
			return fmt.Sprintf("ask %d has %d devices", i, a.Devices[i].Len())
		}
		if a.Devices[i]&n.Cordoned != 0 {
			return fmt.Sprintf("ask %d has a cordoned device", i)
		}
		if m := r.Containers[i].Milli; m != 0 && a.Shares[i].Milli != m || a.Shares[i].Milli < 1 {
			return fmt.Sprintf("ask %d has %d milli", i, a.Shares[i].Milli)
		}
		if m := r.Containers[i].MemoryMiB; m != 0 && a.Shares[i].MemoryMiB != m || a.Shares[i].MemoryMiB < 1 {
			return fmt.Sprintf("ask %d has %d MiB", i, a.Shares[i].MemoryMiB)
		}
	}
	var peak PodUsage
	for _, used := range phases(r, a) {
		for d := range MaxDevices {
			peak[d].Milli = max(peak[d].Milli, used[d].Milli)
			peak[d].MemoryMiB = max(peak[d].MemoryMiB, used[d].MemoryMiB)
			if used[d] == (Share{}) {
				continue
			}
			switch free := before.Free(d); {
			case d >= n.Devices:
				return fmt.Sprintf("device %d does not exist", d)
			case used[d].Milli > free.Milli || used[d].MemoryMiB > free.MemoryMiB:
				return fmt.Sprintf("device %d is given %+v of %+v", d, used[d], free)
			case used[d].Milli > MilliPerDevice || used[d].MemoryMiB > n.MemoryMiB:
				return fmt.Sprintf("device %d is given more than it has", d)
			}
		}
	}
	if holding := a.PodUsage(r.Containers); holding != peak {
		return fmt.Sprintf("holding %+v, and the peak over the pod's life is %+v", holding, peak)
	}
	return ""
}

// TestFitsWheneverThereIsAWay compares with trying every assignment.
func TestFitsWheneverThereIsAWay(t *testing.T) {
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	differ := 0
	for seed := range uint64(rounds) {
		g := newGenerator(seed)
		n := g.node(3)
		s := g.state(n)
		r := g.request(n, 5)
		want := everyAssignment(n, &s, r)
		if got := s.Fits(r); got != want {
			t.Fatalf("seed %d: fits %t, and trying everything says %t\nnode %+v\nstate %+v\nrequest %+v", seed, got, want, n, s, r)
		}
		if want != greedyFits(&s, r) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("placing one container after another was always right: the test does not test the search")
	}
}

// everyAssignment tries all device sets for all asks.
func everyAssignment(n *Node, s *Usage, r *Request) bool {
	var a Assignment
	for i := range r.Containers {
		share, ok := r.Containers[i].On(n.MemoryMiB)
		if !ok {
			return false
		}
		a.Shares[i] = share
	}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(r.Containers) {
			return checkAssignment(n, s, r, &a) == ""
		}
		for devices := Set(1); devices < 1<<n.Devices; devices++ {
			if devices.Len() != r.Containers[i].Devices {
				continue
			}
			a.Devices[i] = devices
			if try(i + 1) {
				return true
			}
		}
		return false
	}
	return try(0)
}

// greedyFits places one container after the other in the order of the spec, each
// on the tightest device, and gives nothing back.
func greedyFits(s *Usage, r *Request) bool {
	left := *s
	for i := range r.Containers {
		share, _ := r.Containers[i].On(s.capacity.MemoryMiB)
		for range r.Containers[i].Devices {
			candidates := left.Fitting(share)
			if candidates == 0 {
				return false
			}
			left.Take(BestFit{}.Pick(CandidateNode{}, PodRequest{}, left, candidates, share), share)
		}
	}
	return true
}

// TestSearchIsBounded gives the search a pod that cannot be placed and has many
// ways to fail: it must stop, and fit and assignment must still agree.
func TestSearchIsBounded(t *testing.T) {
	n, s, r := hardPod()
	if check(n, &s, r) == Fits {
		t.Error("want no room")
	}
	for _, strategy := range allStrategies {
		if _, ok := Assign(strategy, CandidateNode{Usage: &s}, PodRequest{Request: r}); ok {
			t.Errorf("%v: assigned", strategy)
		}
	}
}

// hardPod returns a node and a pod that misses it by a hair.
func hardPod() (*Node, Usage, *Request) {
	n := &Node{Kind: NodeShared, Devices: 16, MemoryMiB: 81920}
	s := usageOf(n)
	for d := range n.Devices {
		s.Take(d, Share{Milli: 401 + int64(d), MemoryMiB: 1})
	}
	r := &Request{Kind: RequestShares}
	for i := range MaxContainers {
		r.Containers = append(r.Containers, ContainerRequest{Container: fmt.Sprintf("c%d", i), Kind: Main, Devices: 1, Milli: 585 + int64(i)%14})
	}
	return n, s, r
}

func TestAssignLifeCycle(t *testing.T) {
	tests := []struct {
		name string
		// free is what each device has left, in thousandths.
		free       []int64
		containers []ContainerRequest
		// want are the devices of each ask; nil is no room.
		want []Set
		// wantHeld is what the pod holds of each device, in thousandths.
		wantHeld []int64
	}{
		{
			name:       "an init container uses what the main container will",
			free:       []int64{1000, 1000},
			containers: []ContainerRequest{{Kind: Init, Devices: 1, Milli: 300}, {Devices: 1, Milli: 500}},
			want:       []Set{SetOf(0), SetOf(0)},
			wantHeld:   []int64{500, 0},
		},
		{
			name:       "a larger init container raises the peak of the same device",
			free:       []int64{1000, 1000},
			containers: []ContainerRequest{{Kind: Init, Devices: 1, Milli: 800}, {Devices: 1, Milli: 500}},
			want:       []Set{SetOf(0), SetOf(0)},
			wantHeld:   []int64{800, 0},
		},
		{
			name:       "it goes elsewhere where that device has no room for it",
			free:       []int64{500, 800},
			containers: []ContainerRequest{{Kind: Init, Devices: 1, Milli: 800}, {Devices: 1, Milli: 500}},
			want:       []Set{SetOf(1), SetOf(0)},
			wantHeld:   []int64{500, 800},
		},
		{
			name:       "init containers use one device one after the other",
			free:       []int64{1000},
			containers: []ContainerRequest{{Kind: Init, Devices: 1, Milli: 900}, {Kind: Init, Devices: 1, Milli: 1000}, {Devices: 1, Milli: 500}, {Devices: 1, Milli: 500}},
			want:       []Set{SetOf(0), SetOf(0), SetOf(0), SetOf(0)},
			wantHeld:   []int64{1000},
		},
		{
			name:       "main containers run at one time",
			free:       []int64{1000},
			containers: []ContainerRequest{{Devices: 1, Milli: 600}, {Devices: 1, Milli: 500}},
			want:       nil,
			wantHeld:   nil,
		},
		{
			name:       "a sidecar runs beside main containers and later init containers",
			free:       []int64{1000},
			containers: []ContainerRequest{{Kind: Sidecar, Devices: 1, Milli: 300}, {Kind: Init, Devices: 1, Milli: 700}, {Devices: 1, Milli: 600}},
			want:       []Set{SetOf(0), SetOf(0), SetOf(0)},
			wantHeld:   []int64{1000},
		},
		{
			name:       "an init container has no room beside the sidecar before it",
			free:       []int64{1000},
			containers: []ContainerRequest{{Kind: Sidecar, Devices: 1, Milli: 300}, {Kind: Init, Devices: 1, Milli: 701}, {Devices: 1, Milli: 600}},
			want:       nil,
		},
		{
			name:       "it has room before the sidecar starts",
			free:       []int64{1000},
			containers: []ContainerRequest{{Kind: Init, Devices: 1, Milli: 1000}, {Kind: Sidecar, Devices: 1, Milli: 300}, {Devices: 1, Milli: 600}},
			want:       []Set{SetOf(0), SetOf(0), SetOf(0)},
			wantHeld:   []int64{1000},
		},
		{
			name:       "the sidecar makes way for an init container that needs a whole device",
			free:       []int64{1000, 400},
			containers: []ContainerRequest{{Kind: Sidecar, Devices: 1, Milli: 300}, {Kind: Init, Devices: 1, Milli: 1000}},
			want:       []Set{SetOf(1), SetOf(0)},
			wantHeld:   []int64{1000, 300},
		},
		{
			name:       "the second choice for one container makes room for the other",
			free:       []int64{500, 600},
			containers: []ContainerRequest{{Devices: 1, Milli: 400}, {Devices: 1, Milli: 600}},
			want:       []Set{SetOf(0), SetOf(1)},
			wantHeld:   []int64{400, 600},
		},
		{
			name:       "a sidecar leaves the tightest device to a main container",
			free:       []int64{700, 600},
			containers: []ContainerRequest{{Kind: Sidecar, Devices: 1, Milli: 100}, {Devices: 1, Milli: 600}, {Devices: 1, Milli: 600}},
			want:       []Set{SetOf(0), SetOf(0), SetOf(1)},
			wantHeld:   []int64{700, 600},
		},
		{
			name: "the largest first on the tightest is not always right",
			free: []int64{1000, 1000},
			containers: []ContainerRequest{
				{Devices: 1, Milli: 400},
				{Devices: 1, Milli: 400},
				{Devices: 1, Milli: 300},
				{Devices: 1, Milli: 300},
				{Devices: 1, Milli: 300},
				{Devices: 1, Milli: 300},
			},
			want:     []Set{SetOf(0), SetOf(1), SetOf(0), SetOf(0), SetOf(1), SetOf(1)},
			wantHeld: []int64{1000, 1000},
		},
		{
			name:       "whole devices take the lowest free ones",
			free:       []int64{900, 1000, 1000, 1000},
			containers: []ContainerRequest{{Devices: 1, Milli: 100}, {Devices: 2, Milli: 1000}},
			want:       []Set{SetOf(0), SetOf(1, 2)},
			wantHeld:   []int64{100, 1000, 1000, 0},
		},
		{
			name:       "whole devices of an init container begin with those that the pod holds",
			free:       []int64{1000, 1000, 1000},
			containers: []ContainerRequest{{Kind: Init, Devices: 2, Milli: 1000}, {Devices: 1, Milli: 1000}, {Devices: 1, Milli: 500}},
			want:       []Set{SetOf(0, 1), SetOf(0), SetOf(1)},
			wantHeld:   []int64{1000, 1000, 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewUsage(len(tt.free), 16000, 0)
			for d, free := range tt.free {
				s.Take(d, Share{Milli: MilliPerDevice - free, MemoryMiB: 16 * (MilliPerDevice - free)})
			}
			r := &Request{Kind: RequestShares, Containers: tt.containers}
			a, ok := Assign(BestFit{}, CandidateNode{Usage: &s}, PodRequest{Request: r})
			if !ok {
				if tt.want != nil {
					t.Error("no room")
				}
				return
			}
			if diff := cmp.Diff(tt.want, a.Devices[:len(tt.containers)]); diff != "" {
				t.Errorf("unexpected devices (-want,+got):\n%s", diff)
			}
			holding := a.PodUsage(tt.containers)
			for d, want := range tt.wantHeld {
				if holding[d] != (Share{Milli: want, MemoryMiB: 16 * want}) {
					t.Errorf("device %d: held %+v, want %d milli and the memory to it", d, holding[d], want)
				}
			}
		})
	}
}

// TestHoldingTakesEachDimensionByItself: an init container with much memory and a
// main container with much compute hold both, as for CPU and memory.
func TestHoldingTakesEachDimensionByItself(t *testing.T) {
	containers := []ContainerRequest{{Kind: Init, Devices: 1}, {Devices: 1}}
	a := Assignment{}
	a.Devices[0], a.Shares[0] = SetOf(2), Share{Milli: 100, MemoryMiB: 8000}
	a.Devices[1], a.Shares[1] = SetOf(2), Share{Milli: 700, MemoryMiB: 1000}
	holding := a.PodUsage(containers)
	if want := (Share{Milli: 700, MemoryMiB: 8000}); holding[2] != want {
		t.Errorf("got %+v, want %+v", holding[2], want)
	}
}

// TestUsageKeepsWhatNodesForget: pods on devices that a node had once, or beyond
// what it has, are counted, and nothing new is placed there.
func TestUsageKeepsWhatNodesForget(t *testing.T) {
	s := NewUsage(2, 1000, 0)
	s.Take(5, Share{Milli: 400, MemoryMiB: 400})
	s.Take(0, Share{Milli: 700, MemoryMiB: 100})
	s.Take(0, Share{Milli: 400, MemoryMiB: 100})
	if got, want := s.Overcommitted(), SetOf(0, 5); got != want {
		t.Errorf("overcommitted %b, want %b", got, want)
	}
	if got := s.IdleMilli(); got != 1000 {
		t.Errorf("idle %d, want the 1000 of device 1 alone", got)
	}
	if s.Fits(&Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 2, Milli: 1000}}}) {
		t.Error("two devices fit where one is free")
	}
	s.Release(0, Share{Milli: 400, MemoryMiB: 100})
	s.Release(0, Share{Milli: 700, MemoryMiB: 100})
	s.Release(5, Share{Milli: 400, MemoryMiB: 400})
	if s != NewUsage(2, 1000, 0) {
		t.Error("taking and releasing is no identity")
	}
}
