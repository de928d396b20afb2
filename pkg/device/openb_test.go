// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The openb trace of Alibaba (2023) lies beside the repository, not in it.
const openbFolder = "../../../shared/data/openb"

// openbDeviceMemory is given to every device, since the trace knows none. Shares
// derive their memory from their compute, so it must not matter; the number is no
// multiple of 1000 to show that rounding does not either.
const openbDeviceMemory = 15109

// openbScale is the paper's: the largest CPU and the most devices of a node.
var openbScale = Scale{CPUMilli: 128000, GPUMilli: 8 * MilliPerDevice}

// TestOpenbReplay replays the paper's experiment on this package alone: the pods
// of a list arrive in random order, each is placed or given up, and what counts
// is the part of all GPUs that is allocated once as much has been asked for as
// there is. The wanted values are the paper's means over ten seeds, as published
// with its simulator; a wrong model is off by points.
//
// The paper breaks ties by the names of nodes, which are a random order, and we by
// best-fit: that alone makes a difference of a point on gpuspec33, and less
// elsewhere.
func TestOpenbReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("replays 8,000 pods on 1,200 nodes many times")
	}
	tests := []struct {
		list      string
		strategy  Strategy
		want      float64
		tolerance float64
	}{
		{list: "default", strategy: FragmentationGradientPublished, want: 95.2, tolerance: 0.3},
		{list: "default", strategy: BestFit, want: 92.9, tolerance: 0.3},
		{list: "default", strategy: DotProduct, want: 90.6, tolerance: 0.5},
		{list: "default", strategy: Random, want: 86.3, tolerance: 0.5},
		{list: "cpu250", strategy: FragmentationGradientPublished, want: 93.2, tolerance: 0.5},
		{list: "cpu250", strategy: BestFit, want: 91.2, tolerance: 0.5},
		{list: "gpushare100", strategy: FragmentationGradientPublished, want: 86.6, tolerance: 0.5},
		{list: "gpushare100", strategy: BestFit, want: 84.6, tolerance: 0.5},
		{list: "gpuspec33", strategy: FragmentationGradientPublished, want: 87.8, tolerance: 1.5},
		{list: "gpuspec33", strategy: BestFit, want: 80.4, tolerance: 0.5},
		{list: "multigpu50", strategy: FragmentationGradientPublished, want: 97.1, tolerance: 0.3},
		{list: "multigpu50", strategy: BestFit, want: 95.6, tolerance: 0.5},
		{list: "default", strategy: FragmentationGradient, want: 96.1, tolerance: 0.3},
		{list: "gpushare100", strategy: FragmentationGradient, want: 88.1, tolerance: 0.3},
		{list: "gpuspec33", strategy: FragmentationGradient, want: 95.1, tolerance: 0.3},
		{list: "multigpu50", strategy: FragmentationGradient, want: 97.4, tolerance: 0.3},
		{list: "cpu250", strategy: FragmentationGradient, want: 94.9, tolerance: 0.3},
	}
	for _, tt := range tests {
		t.Run(tt.list+"/"+tt.strategy.String(), func(t *testing.T) {
			trace := loadOpenb(t, "openb_pod_list_"+tt.list+".csv")
			const seeds = 3
			sum := 0.0
			for seed := range uint64(seeds) {
				sum += trace.replay(tt.strategy, rand.New(rand.NewPCG(seed, 0)))
			}
			got := sum / seeds
			t.Logf("allocated %.2f %%, published %.2f %%", got, tt.want)
			if math.Abs(got-tt.want) > tt.tolerance {
				t.Errorf("allocated at 100 %% arrived load: %.2f %%, want %.2f +- %.1f", got, tt.want, tt.tolerance)
			}
		})
	}
}

// openbNode is a node of the trace.
type openbNode struct {
	model       string
	cpu, memory int64
	devices     int
}

// openbPod is a pod of the trace. Pods of one class are alike.
type openbPod struct {
	demand Demand
	memory int64
	milli  int64 // of all its devices
	class  int
}

// openb is a pod list and the cluster.
type openb struct {
	nodes    []openbNode
	pods     []openbPod
	classes  int
	expected map[string]*Expected
	workload *Workload
	milli    int64 // of all devices
}

// supply returns what the cluster has, by model.
func (tr *openb) supply() []Supply {
	var supply []Supply
	index := map[string]int{}
	for _, n := range tr.nodes {
		i, ok := index[n.model]
		if !ok {
			i = len(supply)
			index[n.model] = i
			supply = append(supply, Supply{Model: n.model, MemoryMiB: openbDeviceMemory})
		}
		supply[i].Devices += int64(n.devices)
	}
	return supply
}

// replay returns the mean allocation in percent while the arrived load rounds to
// 100 % of the cluster.
func (tr *openb) replay(strategy Strategy, r *rand.Rand) float64 {
	run := newOpenbRun(tr, Policy{Strategy: strategy, Rand: r})
	nodes := r.Perm(len(tr.nodes)) // ties go to the first
	order := r.Perm(len(tr.pods))
	var arrived, allocated int64
	var sum float64
	events := 0
	for i := 0; ; i++ {
		// The trace asks for 98 %; what is missing is drawn from it once more.
		next := r.IntN(len(tr.pods))
		if i < len(order) {
			next = order[i]
		}
		pod := &tr.pods[next]
		arrived += pod.milli
		if run.place(pod, nodes) {
			allocated += pod.milli
		}
		load := 100 * float64(arrived) / float64(tr.milli)
		if load >= 100.5 {
			return sum / float64(events)
		}
		if load >= 99.5 {
			sum += 100 * float64(allocated) / float64(tr.milli)
			events++
		}
	}
}

// openbRun is the cluster during a replay, with every node's score for every
// class of pods until the node changes.
type openbRun struct {
	trace  *openb
	policy Policy
	states []State
	cpu    []int64
	memory []int64
	scores [][]int64 // by node and class
}

// Scores that are none.
const (
	unknownScore = math.MinInt64
	noRoom       = math.MinInt64 + 1
)

func newOpenbRun(tr *openb, policy Policy) *openbRun {
	run := &openbRun{trace: tr, policy: policy}
	for i := range tr.nodes {
		n := &tr.nodes[i]
		run.states = append(run.states, NewState(n.devices, openbDeviceMemory, 0))
		run.cpu = append(run.cpu, n.cpu)
		run.memory = append(run.memory, n.memory)
		run.scores = append(run.scores, nil)
		run.forget(i)
	}
	return run
}

// forget drops what was computed for a node.
func (run *openbRun) forget(node int) {
	if run.scores[node] == nil {
		run.scores[node] = make([]int64, run.trace.classes)
	}
	for class := range run.scores[node] {
		run.scores[node][class] = unknownScore
	}
}

// place places the pod on the best node, if there is one.
func (run *openbRun) place(pod *openbPod, nodes []int) bool {
	best, bestScore := -1, int64(noRoom)
	var feasible []int
	for _, n := range nodes {
		if run.memory[n] < pod.memory {
			continue
		}
		score := run.scores[n][pod.class]
		if score == unknownScore {
			score = run.score(n, pod)
			run.scores[n][pod.class] = score
		}
		if score == noRoom {
			continue
		}
		feasible = append(feasible, n)
		if score > bestScore {
			best, bestScore = n, score
		}
	}
	if best < 0 {
		return false
	}
	if run.policy.Strategy == Random {
		best = feasible[run.policy.DrawNode(len(feasible))]
	}
	assignment, ok := run.policy.Assign(run.site(best), pod.demand)
	if !ok {
		panic("a node that fits refused")
	}
	holding := assignment.Holding(pod.demand.Request.Asks)
	run.states[best].TakeAll(&holding)
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
		!pod.demand.Request.Models.Match(run.trace.nodes[node].model) ||
		!run.states[node].Fits(pod.demand.Request) {
		return noRoom
	}
	return run.policy.Score(run.site(node), pod.demand)
}

func (run *openbRun) site(node int) Site {
	return Site{
		State:    &run.states[node],
		CPUMilli: run.cpu[node],
		Scale:    openbScale,
		Expected: run.trace.expected[run.trace.nodes[node].model],
	}
}

// loadOpenb reads the cluster and one pod list, and skips the test where the
// trace is not at hand.
func loadOpenb(tb testing.TB, podList string) *openb {
	tb.Helper()
	if _, err := os.Stat(openbFolder); err != nil {
		tb.Skipf("the openb trace is not at hand: %v", err)
	}
	tr := &openb{expected: map[string]*Expected{}}
	for _, row := range readCSV(tb, "openb_node_list_gpu_node.csv") {
		n := openbNode{
			cpu:     number(tb, row["cpu_milli"]),
			memory:  number(tb, row["memory_mib"]),
			devices: int(number(tb, row["gpu"])),
			model:   strings.ToLower(row["model"]),
		}
		tr.nodes = append(tr.nodes, n)
		tr.milli += int64(n.devices) * MilliPerDevice
	}
	tr.loadPods(tb, podList)
	return tr
}

// loadPods reads the pods, and takes the workload to be expected from them.
func (tr *openb) loadPods(tb testing.TB, podList string) {
	tb.Helper()
	type key struct {
		cpu, memory, devices, milli int64
		models                      string
	}
	classOf := map[key]int{}
	weights := map[key]int{}
	var classes []Class
	for _, row := range readCSV(tb, podList) {
		k := key{
			cpu:     number(tb, row["cpu_milli"]),
			memory:  number(tb, row["memory_mib"]),
			devices: number(tb, row["num_gpu"]),
			milli:   number(tb, row["gpu_milli"]),
			models:  row["gpu_spec"],
		}
		pod := openbPod{
			demand: Demand{CPUMilli: k.cpu, Request: &Request{}},
			memory: k.memory,
			milli:  k.devices * k.milli,
		}
		if k.devices > 0 {
			pod.demand.Request.Form = FormShares
			pod.demand.Request.Asks = []Ask{{Container: "main", Devices: int(k.devices), Milli: k.milli}}
		}
		if k.models != "" {
			models, err := ParseModels(strings.ReplaceAll(k.models, "|", ","))
			if err != nil {
				tb.Fatalf("gpu_spec %q: %v", k.models, err)
			}
			pod.demand.Request.Models = models
		}
		if _, ok := classOf[k]; !ok {
			classOf[k] = len(classOf)
		}
		pod.class = classOf[k]
		tr.pods = append(tr.pods, pod)

		k.memory = 0 // not part of the expected workload
		if i, ok := weights[k]; ok {
			classes[i].Weight++
		} else {
			weights[k] = len(classes)
			classes = append(classes, Class{Shape: ShapeOf(pod.demand), Weight: 1})
		}
	}
	tr.classes = len(classOf)
	workload, err := NewWorkload(classes)
	if err != nil {
		tb.Fatal(err)
	}
	tr.workload = workload.Typical(95).Priced(tr.supply())
	for _, n := range tr.nodes {
		if tr.expected[n.model] == nil {
			tr.expected[n.model] = tr.workload.On(n.model, openbDeviceMemory)
		}
	}
}

// readCSV reads a file of the trace into a map per row.
func readCSV(tb testing.TB, name string) []map[string]string {
	tb.Helper()
	file, err := os.Open(filepath.Join(openbFolder, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		fields := map[string]string{}
		for i, column := range rows[0] {
			fields[column] = row[i]
		}
		out = append(out, fields)
	}
	return out
}

// number parses a number of the trace.
func number(tb testing.TB, s string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
