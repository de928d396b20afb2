// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allStrategies are the strategies to test with.
var allStrategies = Strategies()

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
		// free is what each device has left, in thousandths, as all amounts here.
		free []int64
		// containers are what each asks for, whole devices above 1000.
		containers string
		// want are the devices of each container; nil is no room. held is what the pod holds of each device.
		want []Set
		held []int64
	}{
		{"an init container uses what the main container will", []int64{1000, 1000}, "init 300, 500", []Set{SetOf(0), SetOf(0)}, []int64{500, 0}},
		{"a larger init container raises the peak of the same device", []int64{1000, 1000}, "init 800, 500", []Set{SetOf(0), SetOf(0)}, []int64{800, 0}},
		{"it goes elsewhere where that device has no room for it", []int64{500, 800}, "init 800, 500", []Set{SetOf(1), SetOf(0)}, []int64{500, 800}},
		{"init containers use one device one after the other", []int64{1000}, "init 900, init 1000, 500, 500", []Set{SetOf(0), SetOf(0), SetOf(0), SetOf(0)}, []int64{1000}},
		{"main containers run at one time", []int64{1000}, "600, 500", nil, nil},
		{"a sidecar runs beside main containers and later init containers", []int64{1000}, "sidecar 300, init 700, 600", []Set{SetOf(0), SetOf(0), SetOf(0)}, []int64{1000}},
		{"an init container has no room beside the sidecar before it", []int64{1000}, "sidecar 300, init 701, 600", nil, nil},
		{"it has room before the sidecar starts", []int64{1000}, "init 1000, sidecar 300, 600", []Set{SetOf(0), SetOf(0), SetOf(0)}, []int64{1000}},
		{"the sidecar makes way for an init container that needs a whole device", []int64{1000, 400}, "sidecar 300, init 1000", []Set{SetOf(1), SetOf(0)}, []int64{1000, 300}},
		{"the second choice for one container makes room for the other", []int64{500, 600}, "400, 600", []Set{SetOf(0), SetOf(1)}, []int64{400, 600}},
		{"a sidecar leaves the tightest device to a main container", []int64{700, 600}, "sidecar 100, 600, 600", []Set{SetOf(0), SetOf(0), SetOf(1)}, []int64{700, 600}},
		{"the largest first on the tightest is not always right", []int64{1000, 1000}, "400, 400, 300, 300, 300, 300", []Set{SetOf(0), SetOf(1), SetOf(0), SetOf(0), SetOf(1), SetOf(1)}, []int64{1000, 1000}},
		{"whole devices take the lowest free ones", []int64{900, 1000, 1000, 1000}, "100, 2000", []Set{SetOf(0), SetOf(1, 2)}, []int64{100, 1000, 1000, 0}},
		{"whole devices of an init container begin with those that the pod holds", []int64{1000, 1000, 1000}, "init 2000, 1000, 500", []Set{SetOf(0, 1), SetOf(0), SetOf(1)}, []int64{1000, 1000, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var containers []ContainerRequest
			for text := range strings.SplitSeq(tt.containers, ", ") {
				c := ContainerRequest{Devices: 1}
				if kind, amount, ok := strings.Cut(text, " "); ok {
					c.Kind, text = map[string]ContainerKind{"init": Init, "sidecar": Sidecar}[kind], amount
				}
				milli, err := strconv.ParseInt(text, 10, 64)
				must(t, err)
				c.Milli = min(milli, MilliPerDevice)
				c.Devices = int(max(1, milli/MilliPerDevice))
				containers = append(containers, c)
			}
			s := stateOf(tt.free...)
			a, ok := Assign(BestFit{}, CandidateNode{Usage: &s}, PodRequest{Request: &Request{Kind: RequestShares, Containers: containers}})
			if ok != (tt.want != nil) {
				t.Fatalf("assigned %t", ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(tt.want, a.Devices[:len(containers)]); diff != "" {
				t.Errorf("unexpected devices (-want,+got):\n%s", diff)
			}
			holding := a.PodUsage(containers)
			for d, want := range tt.held {
				if holding[d] != (Share{Milli: want, MemoryMiB: 16 * want}) {
					t.Errorf("device %d: held %+v, want %d milli and the memory to it", d, holding[d], want)
				}
			}
		})
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
