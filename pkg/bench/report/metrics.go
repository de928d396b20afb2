// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strconv"
	"strings"
)

// Keys of the metrics that a round has. They are stable.
const (
	// Throughput is pods bound a second, from the first creation to the last binding.
	Throughput = "throughput"
	// LatencyP50, LatencyP90 and LatencyP99 are from a pod's creation to its binding,
	// both as the bench's client saw them, in milliseconds.
	LatencyP50 = "latencyP50"
	LatencyP90 = "latencyP90"
	LatencyP99 = "latencyP99"
	// WritesPerPod is how many requests that change something the scheduler's client
	// made for each bound pod: bindings, events, statuses.
	WritesPerPod = "writesPerPod"
	// CPUMillisPerPod is the scheduler process's CPU time for each bound pod, in
	// milliseconds.
	CPUMillisPerPod = "cpuMillisPerPod"
	// MemoryMiB is the scheduler process's largest resident memory seen, in MiB.
	MemoryMiB = "memoryMiB"
	// Unplaced is how many pods were not bound when the round ended.
	Unplaced = "unplaced"
	// GPUAllocated is the part of all devices that pods hold at the end, in percent;
	// under DevicePlugin a share counts as the share that was asked for.
	GPUAllocated = "gpuAllocated"
	// GPUHeld is the part of all devices that nobody else can use, in percent: equal to
	// GPUAllocated under Shares, and larger where shares occupy whole devices.
	GPUHeld = "gpuHeld"
	// GPUFragmented is the part of the idle devices that is of no use to the workload's
	// own mix of pods (FGD, ATC'23), in percent.
	GPUFragmented = "gpuFragmented"
	// CallsWithinNode and CallsWithinZone are the parts of all calls between pods that
	// stay within a node and a zone, in percent (package callgraph).
	CallsWithinNode = "callsWithinNode"
	CallsWithinZone = "callsWithinZone"
	// CPUImbalance is the standard deviation over the nodes of the requested part of
	// CPU, in percentage points: 0 is perfectly even.
	CPUImbalance = "cpuImbalance"
	// HostileWrites is how many writes a second the hostile namespace had answered, where
	// there is one.
	HostileWrites = "hostileWrites"
	// LabelViolations is how many pods are on a node whose labels the workload forbids
	// them.
	LabelViolations = "labelViolations"
)

// Metric is how a metric is shown.
type Metric struct {
	// Key names it in JSON.
	Key string
	// Title names it for a reader, with its unit.
	Title string
	// Better is +1 if more is better, -1 if less is, 0 if neither.
	Better int
	// Digits is how many decimals are shown.
	Digits int
	// Quality is about where the pods are, and not about how they got there.
	Quality bool
}

// isPercentage reports whether the metric is between 0 and 100.
func (m Metric) isPercentage() bool { return strings.Contains(m.Title, ", %") }

// manyDigits is where a number has enough digits without decimals.
const manyDigits = 1000

// text writes a value of the metric with its decimals.
func (m Metric) text(value float64) string {
	if value >= manyDigits {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'f', m.Digits, 64)
}

// throughputMetric is how throughput is shown where it stands alone.
func throughputMetric() Metric { return Metrics()[0] }

// Metrics returns all metrics in the order in which they are shown, Throughput first.
func Metrics() []Metric {
	return []Metric{
		{Throughput, "pods/s", +1, 0, false},
		{LatencyP50, "latency p50, ms", -1, 1, false},
		{LatencyP90, "latency p90, ms", -1, 1, false},
		{LatencyP99, "latency p99, ms", -1, 1, false},
		{WritesPerPod, "API writes/pod", -1, 2, false},
		{CPUMillisPerPod, "CPU ms/pod", -1, 2, false},
		{MemoryMiB, "memory, MiB", -1, 0, false},
		{Unplaced, "pods unplaced", -1, 0, true},
		{GPUAllocated, "GPU allocated, %", +1, 1, true},
		{GPUHeld, "GPU held, %", 0, 1, true},
		// Of what is idle: who leaves less idle is no worse for it.
		{GPUFragmented, "GPU fragmented, % of the idle", 0, 1, true},
		{CallsWithinNode, "calls within node, %", +1, 1, true},
		{CallsWithinZone, "calls within zone, %", +1, 1, true},
		{CPUImbalance, "CPU imbalance, points", -1, 1, true},
		{LabelViolations, "label violations", -1, 0, true},
		{HostileWrites, "hostile writes/s", 0, 1, false},
	}
}
