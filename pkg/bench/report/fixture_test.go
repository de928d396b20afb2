// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/utils/ptr"
)

// contender is what the fixture makes the rounds of a scheduler from.
type contender struct {
	name, binary, profile, control string
	notes                          []string
	rate, writes, cpu, memory      float64
	quality                        map[string]float64
	reasons                        map[string]int
}

// testPods is how many pods arrive in the fixture.
const testPods = 2000

// testReport is a report of four contenders, five rounds each and two steady ones,
// as a run with a GPU workload on a local control plane gives it. Two rounds do not
// count. It is the same at every call.
func testReport(t *testing.T) *Report {
	t.Helper()
	contenders := []contender{
		{
			name: "default-scheduler", binary: "bin/kube-scheduler", rate: 182, writes: 2.01, cpu: 3.84, memory: 212,
			notes:   []string{"Knows no shares of devices: each share is given out as one whole nvidia.com/gpu."},
			quality: map[string]float64{Unplaced: 311, GPUAllocated: 64.2, GPUHeld: 100, GPUFragmented: 0, CallsWithinNode: 4.1, CallsWithinZone: 35.2, CPUImbalance: 8.4},
			reasons: map[string]int{"0/1000 nodes are available: 1000 Insufficient nvidia.com/gpu.": 311},
		},
		{
			name: "berth-scheduler", binary: "bin/berth-scheduler", profile: "config/berth-scheduler/gpu.yaml", rate: 176, writes: 2.01, cpu: 4.02, memory: 231,
			quality: map[string]float64{Unplaced: 12, GPUAllocated: 95.9, GPUHeld: 95.9, GPUFragmented: 38.6, CallsWithinNode: 31.7, CallsWithinZone: 71.9, CPUImbalance: 14.2},
			reasons: map[string]int{"0/1000 nodes are available: 900 node(s) have no device with that much left, 100 node(s) are cordoned.": 11, "0/1000 nodes are available: 1000 Insufficient cpu.": 1},
		},
		{
			name: "random-scheduler", binary: "bin/random-scheduler", control: "bare-binder", rate: 371, writes: 2.0, cpu: 0.61, memory: 74,
			notes:   []string{"Knows no shares of devices: each share is given out as one whole nvidia.com/gpu.", "Of the nodes with room it takes any."},
			quality: map[string]float64{Unplaced: 428, GPUAllocated: 51.3, GPUHeld: 97.2, GPUFragmented: 0.4, CallsWithinNode: 0.3, CallsWithinZone: 33.1, CPUImbalance: 19.9},
			reasons: map[string]int{"no node admits the pod": 428},
		},
		{name: "bare-binder", rate: 389, writes: 1},
	}
	random := rand.New(rand.NewPCG(1, 2))
	r := &Report{
		FormatVersion: FormatVersion,
		Environment: Environment{
			Version: "v0.1.0-dev", Commit: "2764662e0d3c", Date: "2026-11-21T20:00:00Z",
			Command: "kubectl berth bench -f config/bench/gpu-mix.yaml --schedulers default-scheduler,berth-scheduler,random-scheduler --out out/bench",
			Machine: Machine{OS: "linux/amd64, Debian GNU/Linux 12 (bookworm), kernel 6.1.0", CPU: "AMD EPYC 7B13", Cores: 2, MemoryMiB: 24100, LoadBefore: ptr.To(0.08)},
			Cluster: "local", Kubernetes: "v1.36.3", ClientQPS: 1000,
		},
		Workload: Workload{
			Name: "gpu-mix", Description: "Whole devices and shares, in the proportions of a production trace.",
			Path: "config/bench/gpu-mix.yaml", SHA256: "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			Nodes: 1000, Existing: 200, Pods: testPods,
		},
	}
	for i, c := range contenders {
		s := Scheduler{Name: c.name, Binary: c.binary, Profile: c.profile, Control: c.control, ControlOnly: c.name == "bare-binder", Notes: c.notes}
		if c.binary != "" {
			s.Version = "v1.36.3"
		}
		if c.profile != "" {
			s.ProfileSHA256 = "8d74beec1be996322ad76813bafb92d40839895d6dd7ee808b17ca201eac98be"
		}
		for number := 1; number <= 5; number++ {
			s.Rounds = append(s.Rounds, testRound(random, &c, PhaseAsPlanned, number, float64(60*number+15*i), 0))
		}
		for number := 1; number <= 2; number++ {
			s.Rounds = append(s.Rounds, testRound(random, &c, PhaseSteady, number, float64(400+30*number+15*i), math.Round(0.8*c.rate)))
		}
		r.Schedulers = append(r.Schedulers, s)
	}
	r.Schedulers[1].Rounds[2].Invalid = []string{"the client waited 1.2 s for its rate limit of 1000 requests/s"}
	r.Schedulers[0].Rounds[1].Inexact = map[string]string{LatencyP50: "the watch was 2s behind", LatencyP90: "the watch was 2s behind", LatencyP99: "the watch was 2s behind"}
	r.Schedulers[2].Rounds[0].Invalid = []string{"throughput of 811 pods/s is 81 % of the client's 1000 requests/s", "the scheduler's client was throttled"}
	return r
}

// testRound draws a round of a contender: a queue that is worked off at its rate,
// or pods that are bound as they come.
func testRound(random *rand.Rand, c *contender, phase Phase, number int, start, target float64) Round {
	rate := c.rate * (1 + 0.04*random.NormFloat64())
	placed := testPods - int(c.quality[Unplaced])
	round := Round{Number: number, Phase: phase, StartSeconds: start, TargetRate: target, Metrics: map[string]float64{WritesPerPod: c.writes}}
	if len(c.quality) > 0 {
		round.Metrics[CPUMillisPerPod] = c.cpu * (1 + 0.02*random.NormFloat64())
		round.Metrics[MemoryMiB] = c.memory + 4*random.Float64()
		round.Metrics[LabelViolations] = 0
	}
	if c.name == "random-scheduler" {
		round.Metrics[LabelViolations] = 17
	}
	for _, metric := range Metrics() {
		if value, ok := c.quality[metric.Key]; ok {
			if metric.isPercentage() && value > 0 && value < 100 {
				value = min(100, value*(1+0.01*random.NormFloat64()))
			}
			round.Metrics[metric.Key] = value
		}
	}
	round.Reasons = c.reasons
	var latencies []float64
	worked := rate
	if target > 0 {
		worked = target
	}
	for pod := range placed {
		second := float64(pod) / worked
		service := 1000 / rate * (1 + random.ExpFloat64())
		if target == 0 {
			// Created at twice the rate at which they are bound: the queue grows.
			service += 1000 * (second - float64(pod)/(2.2*c.rate))
		}
		latencies = append(latencies, service)
		second += 0.3 * random.Float64()
		for len(round.BoundPerSecond) <= int(second) {
			round.BoundPerSecond = append(round.BoundPerSecond, 0)
		}
		round.BoundPerSecond[int(second)]++
	}
	round.DurationSeconds = float64(placed) / worked
	round.Metrics[Throughput] = worked
	slices.Sort(latencies)
	for percent := range latencyPoints {
		round.LatencyMillis = append(round.LatencyMillis, latencies[percent*(len(latencies)-1)/100])
	}
	round.Metrics[LatencyP50] = round.LatencyMillis[50]
	round.Metrics[LatencyP90] = round.LatencyMillis[90]
	round.Metrics[LatencyP99] = round.LatencyMillis[99]
	return round
}
