// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/baselines"
)

// TestOpenbReplay replays the paper's experiment on this package alone: the pods
// of a list arrive in random order, each is placed or given up, and what counts
// is the part of all GPUs that is allocated once as much has been asked for as
// there is. Of the strategies that the paper has, the wanted values are its means
// over ten seeds, as published with its simulator; a wrong model is off by points.
// Those of FragmentationGradient are in the plugin's DESIGN.md.
//
// The paper breaks ties by the names of nodes, which are a random order; here they
// are drawn, as kube-scheduler does, and baselines.Published has
// best-fit among them: that alone makes a difference of a point on gpuspec33, and
// less elsewhere.
func TestOpenbReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 8,000 pods on 1,200 nodes many times")
	}
	tests := []struct {
		list      string
		variant   openbVariant
		want      float64
		tolerance float64
	}{
		{list: "default", variant: openbVariant{strategy: baselines.Published{}}, want: 95.2, tolerance: 0.3},
		{list: "default", variant: openbVariant{strategy: device.BestFit{}}, want: 92.9, tolerance: 0.2},
		{list: "default", variant: openbVariant{strategy: baselines.Random{}}, want: 86.3, tolerance: 0.5},
		{list: "default", variant: openbVariant{strategy: device.FragmentationGradient{}}, want: 96.1, tolerance: 0.3},
		{list: "cpu250", variant: openbVariant{strategy: baselines.Published{}}, want: 93.2, tolerance: 0.8},
		{list: "cpu250", variant: openbVariant{strategy: device.FragmentationGradient{}, learned: true}, want: 94.8, tolerance: 0.5},
		{list: "gpushare100", variant: openbVariant{strategy: baselines.Published{}}, want: 86.6, tolerance: 0.5},
		{list: "gpushare100", variant: openbVariant{strategy: device.FragmentationGradient{}}, want: 88.1, tolerance: 0.3},
		{list: "gpuspec33", variant: openbVariant{strategy: baselines.Published{}}, want: 87.8, tolerance: 1.5},
		{list: "gpuspec33", variant: openbVariant{strategy: device.FragmentationGradient{}, learned: true}, want: 94.8, tolerance: 0.5},
		{list: "multigpu50", variant: openbVariant{strategy: baselines.Published{}}, want: 97.1, tolerance: 0.3},
		{list: "multigpu50", variant: openbVariant{strategy: device.FragmentationGradient{}}, want: 97.4, tolerance: 0.3},
	}
	traces := map[string]*openb{}
	for _, tt := range tests {
		name := tt.list + "/" + tt.variant.strategy.String()
		if tt.variant.learned {
			name += "/learned"
		}
		t.Run(name, func(t *testing.T) {
			if traces[tt.list] == nil {
				traces[tt.list] = loadOpenb(t, "openb_pod_list_"+tt.list+".csv")
			}
			seeds := int64(2)
			if tt.variant.learned {
				seeds = 1 // it takes three times as long
			}
			got := 0.0
			for seed := range seeds {
				got += traces[tt.list].replay(tt.variant, 42+seed, 100.5).allocated / float64(seeds)
			}
			t.Logf("allocated %.2f %%", got)
			if math.Abs(got-tt.want) > tt.tolerance {
				t.Errorf("allocated at 100 %% arrived load: %.2f %%, want %.2f +- %.1f", got, tt.want, tt.tolerance)
			}
		})
	}
}

// loadSizes reads the pods of all sizes that come with the simulator.
func loadSizes(tb testing.TB) *openb {
	tb.Helper()
	return loadTrace(tb, 0, "../../config/simulator/gpu-sizes-nodes.csv", "../../config/simulator/gpu-sizes-pods.csv")
}

// TestLargePodsBesideShares: of 320 pods with two, four and eight devices, in ten orders
// of arrival, hardly one finds no place behind shares, and no device is kept back for
// that: 99.2 % is all that can be given out (config/bench/gpu-sizes.yaml).
func TestLargePodsBesideShares(t *testing.T) {
	tr := loadSizes(t)
	got := tr.replayAll(openbVariant{strategy: device.FragmentationGradient{}, learned: true}, paperSeeds, 200)
	t.Logf("%.2f %% allocated, %d pods failed, %d of them with several devices", got.allocated, got.failed[0], got.failed[3])
	if got.allocated < 98.8 {
		t.Errorf("%.2f %% of the devices are allocated, want 98.8", got.allocated)
	}
	if got.failed[3] > 5 {
		t.Errorf("%d pods with several devices found no place, want at most 5", got.failed[3])
	}
}

// openbVariant is how a trace is replayed.
type openbVariant struct {
	strategy device.Strategy
	// tuning are other constants than the strategy's.
	tuning *device.Tuning
	// learned is whether the expected workload is learned while the pods come;
	// otherwise it is known in advance, as in the paper.
	learned bool
	// then is the list from which the pods come once half of the cluster is asked
	// for, and who knows in advance knows that too; nil if it does not change.
	then *openb
}

// openbResult is what came of a replay.
type openbResult struct {
	// allocated is the mean allocation in percent while the arrived load rounds to
	// 100 % of the cluster.
	allocated float64
	// failed are the pods that were given up, and failedAt100 those until then.
	failed, failedAt100 openbFailures
}

// openbFailures are all pods, those without devices, those that insist on a model, and
// those with several devices.
type openbFailures [4]int

// replay runs until so many percent of the cluster have been asked for.
func (tr *openb) replay(variant openbVariant, seed int64, until float64) openbResult {
	if variant.tuning != nil {
		defer device.SetConstants(device.SetConstants(*variant.tuning))
	}
	run := newOpenbRun(tr, variant, rand.New(rand.NewPCG(uint64(seed), 0)))
	if !variant.learned {
		run.expect(tr.workload)
	}
	var result openbResult
	var arrived, allocated int64
	sum, events := 0.0, 0
	order := tr.arrivals(seed)
	offset := 0
	for i := 0; i < len(order); i++ {
		if next := variant.then; next != nil && offset == 0 && 2*arrived >= tr.milli {
			order, i, offset = next.arrivals(seed), 0, len(tr.classes)
			if !variant.learned {
				run.expect(next.workload)
			}
		}
		pod := order[i]
		arrived += pod.milli
		if run.place(pod, pod.class+offset) {
			allocated += pod.milli
		} else {
			result.failed.count(pod)
		}
		load := 100 * float64(arrived) / float64(tr.milli)
		if load < 100.5 {
			result.failedAt100 = result.failed
		}
		if load >= 99.5 && load < 100.5 {
			sum += 100 * float64(allocated) / float64(tr.milli)
			events++
		}
		if load >= until {
			break
		}
	}
	result.allocated = sum / float64(events)
	return result
}

// count counts a pod that was given up.
func (f *openbFailures) count(pod *openbPod) {
	f[0]++
	if pod.milli == 0 {
		f[1]++
	}
	if !pod.demand.Request.Models.Any() {
		f[2]++
	}
	if pod.milli > device.MilliPerDevice {
		f[3]++
	}
}

// openbRun is the cluster during a replay, with every node's score for every
// class of pods until the node changes.
type openbRun struct {
	trace     *openb
	strategy  device.Strategy
	rand      *rand.Rand
	learned   bool
	histogram device.Histogram
	supply    []device.Supply
	expected  map[string]*device.NodeWorkload
	states    []device.Usage
	cpu       []int64
	memory    []int64
	scores    [][]int64 // by node and class
}

// Scores that are none.
const (
	unknownScore = math.MinInt64
	noRoom       = math.MinInt64 + 1
)

func newOpenbRun(tr *openb, variant openbVariant, r *rand.Rand) *openbRun {
	run := &openbRun{
		trace: tr, strategy: variant.strategy, rand: r, learned: variant.learned, supply: tr.supply(),
	}
	if variant.strategy == (baselines.Random{}) {
		run.strategy = baselines.Random{Rand: r}
	}
	classes := len(tr.classes)
	if variant.then != nil {
		classes += len(variant.then.classes)
	}
	for i := range tr.Nodes {
		n := &tr.Nodes[i]
		run.states = append(run.states, device.NewUsage(n.Devices, openbDeviceMemory, 0))
		run.cpu = append(run.cpu, n.CPUMilli)
		run.memory = append(run.memory, n.MemoryMiB)
		run.scores = append(run.scores, make([]int64, classes))
		run.forget(i)
	}
	return run
}

// expect makes the workload the expected one.
func (run *openbRun) expect(w *device.Workload) {
	run.expected = map[string]*device.NodeWorkload{}
	if run.strategy == (device.FragmentationGradient{}) {
		w = w.WithSupply(run.supply)
	}
	for i := range run.trace.Nodes {
		model := run.trace.Nodes[i].Model
		if run.expected[model] == nil {
			run.expected[model] = w.On(model, openbDeviceMemory)
		}
		run.forget(i)
	}
}

// forget drops what was computed for a node.
func (run *openbRun) forget(node int) {
	for class := range run.scores[node] {
		run.scores[node][class] = unknownScore
	}
}

// place places the pod on the best node, one of those if there are several, and
// reports whether there is one.
func (run *openbRun) place(pod *openbPod, class int) bool {
	if run.learned && pod.milli > 0 && run.histogram.Add(device.ShapeOf(pod.demand)) {
		run.expect(run.histogram.Workload())
	}
	best, bestScore, ties := -1, int64(noRoom), 0
	for n := range run.states {
		if run.memory[n] < pod.memory {
			continue
		}
		score := run.scores[n][class]
		if score == unknownScore {
			score = run.score(n, pod)
			run.scores[n][class] = score
		}
		switch {
		case score == noRoom || score < bestScore:
		case score > bestScore:
			best, bestScore, ties = n, score, 1
		default:
			if ties++; run.rand.IntN(ties) == 0 {
				best = n
			}
		}
	}
	if best < 0 {
		return false
	}
	assignment, ok := device.Assign(run.strategy, run.input(best), pod.demand)
	if !ok {
		panic("a node that fits refused")
	}
	holding := assignment.PodUsage(pod.demand.Request.Containers)
	run.states[best].Add(&holding)
	if run.states[best].Overcommitted() != 0 {
		panic("a device is overcommitted")
	}
	run.cpu[best] -= pod.demand.CPUMilli
	run.memory[best] -= pod.memory
	run.forget(best)
	return true
}

func (run *openbRun) score(node int, pod *openbPod) int64 {
	if run.cpu[node] < pod.demand.CPUMilli ||
		!pod.demand.Request.Models.Match(run.trace.Nodes[node].Model) ||
		!run.states[node].Fits(pod.demand.Request) {
		return noRoom
	}
	return run.strategy.Score(run.input(node), pod.demand)
}

func (run *openbRun) input(node int) device.CandidateNode {
	return device.CandidateNode{
		Usage:    &run.states[node],
		CPUMilli: run.cpu[node],
		MaxNode:  openbScale,
		Workload: run.expected[run.trace.Nodes[node].Model],
	}
}
