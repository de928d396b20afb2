// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Metric is a number that every run has, or that it lacks where it means nothing:
// in a cluster without devices, or at a load that was not reached.
type Metric struct {
	// Key names it in JSON and CSV. Keys do not change.
	Key string
	// Title names it in a table, with its unit.
	Title string

	// rare is whether a table leaves it out where it is 0 for every profile.
	rare  bool
	value func(*Recorder) (float64, bool)
}

// fullLoad is the load in percent at which the fragmentation paper compares.
const fullLoad = 100

// Metrics returns all metrics in the order of tables.
func Metrics() []Metric {
	metrics := []Metric{
		{Key: "allocatedPercentAt100", Title: "GPUs allocated at 100 % load, %", value: atFullLoad(func(p Point) float64 { return p.Allocated })},
		{Key: "allocatedPercent", Title: "GPUs allocated at the end, %", value: ofDevices(func(r *Recorder) float64 { return r.state().Allocated })},
		{Key: "podsPlaced", Title: "pods placed at the end", value: count(func(r *Recorder) int { return r.placed })},
		{Key: "fragmentedPercentAt100", Title: "GPUs fragmented at 100 % load, %", value: fragmentedAtFullLoad(func(p Point) float64 { return p.Fragmented })},
		{Key: "fragmentedPercent", Title: "GPUs fragmented at the end, %", value: fragmentation(func(r *Recorder) float64 { return r.state().Fragmented })},
		{Key: "fragmentationRatioPercentAt100", Title: "idle GPUs fragmented at 100 % load, %", value: fragmentedAtFullLoad(func(p Point) float64 { return p.Ratio })},
		{Key: "fragmentationRatioPercent", Title: "idle GPUs fragmented at the end, %", value: fragmentation(func(r *Recorder) float64 { return r.state().Ratio })},
	}
	for _, cause := range []struct {
		device.Cause
		key, title string
	}{
		{device.Q1LackBoth, "idlePercentQ1LackBoth", "idle at the end, without GPU and CPU for a class (Q1), %"},
		{device.Q2LackGPU, "idlePercentQ2LackGPU", "idle at the end, without GPU for a class (Q2), %"},
		{device.Q3Satisfied, "idlePercentQ3Satisfied", "idle at the end, usable by a class (Q3), %"},
		{device.Q4LackCPU, "idlePercentQ4LackCPU", "idle at the end, without CPU for a class (Q4), %"},
		{device.XLSatisfied, "idlePercentXLSatisfied", "idle at the end, with CPU for a class without GPU (XL), %"},
		{device.XRLackCPU, "idlePercentXRLackCPU", "idle at the end, without CPU for a class without GPU (XR), %"},
		{device.NoAccess, "idlePercentNoAccess", "idle at the end, of a model that a class excludes, %"},
	} {
		metrics = append(metrics, Metric{Key: cause.key, Title: cause.title, value: fragmentation(func(r *Recorder) float64 {
			return percent(max(0, r.usage.causes[cause.Cause]), float64(r.usage.capacity.milli))
		})})
	}
	return append(metrics, []Metric{
		{Key: "pods", Title: "pods arrived", value: count(func(r *Recorder) int { return r.arrived })},
		{Key: "podsFailed", Title: "pods failed", value: count(func(r *Recorder) int { return r.arrived - r.placed })},
		{Key: "podsFailedCPUOnly", Title: "pods failed, without GPU", value: count(func(r *Recorder) int { return r.failed[cpuOnly] })},
		{Key: "podsFailedShare", Title: "pods failed, with a share of a GPU", value: count(func(r *Recorder) int { return r.failed[share] })},
		{Key: "podsFailedWhole", Title: "pods failed, with whole GPUs", value: count(func(r *Recorder) int { return r.failed[whole] })},
		{Key: "podsFailedSeveral", Title: "pods failed, with several GPUs", value: count(func(r *Recorder) int { return r.failedSeveral })},
		{Key: "podsFailedConstrained", Title: "pods failed, bound to a model or memory", value: count(func(r *Recorder) int { return r.failedConstrained })},
		{Key: "devicesFailed", Title: "GPUs that failed pods asked for", value: func(r *Recorder) (float64, bool) { return float64(r.failedMilli) / device.MilliPerDevice, true }},
		{Key: "podsEvicted", rare: true, Title: "pods evicted", value: count(func(r *Recorder) int { return r.evicted })},
		{Key: "podsWithoutDevices", rare: true, Title: "pods bound without their devices", value: count(func(r *Recorder) int { return r.usage.unrecorded })},
		{Key: "nodesUsed", Title: "nodes that received pods", value: count(func(r *Recorder) int { return r.usage.nodesTouched() })},
		{Key: "devicesUsed", Title: "GPUs in use at the end", value: count(func(r *Recorder) int { return r.usage.devicesInUse() })},
		{Key: "cpuPercent", Title: "CPU requested at the end, %", value: func(r *Recorder) (float64, bool) {
			return percent(float64(r.usage.used.cpuMilli), float64(r.usage.capacity.cpuMilli)), true
		}},
		{Key: "memoryPercent", Title: "memory requested at the end, %", value: func(r *Recorder) (float64, bool) {
			return percent(float64(r.usage.used.memory), float64(r.usage.capacity.memory)), true
		}},
	}...)
}

func count(value func(*Recorder) int) func(*Recorder) (float64, bool) {
	return func(r *Recorder) (float64, bool) { return float64(value(r)), true }
}

// ofDevices has a value where there are devices.
func ofDevices(value func(*Recorder) float64) func(*Recorder) (float64, bool) {
	return func(r *Recorder) (float64, bool) { return value(r), r.usage.capacity.milli > 0 }
}

// fragmentation has a value where it was measured.
func fragmentation(value func(*Recorder) float64) func(*Recorder) (float64, bool) {
	return func(r *Recorder) (float64, bool) {
		return value(r), r.usage.capacity.milli > 0 && r.usage.workload != nil
	}
}

// atFullLoad has a value where the load came to what rounds to 100 %.
func atFullLoad(value func(Point) float64) func(*Recorder) (float64, bool) {
	return func(r *Recorder) (float64, bool) {
		points := r.series.points()
		if len(points) <= fullLoad || r.usage.capacity.milli == 0 {
			return 0, false
		}
		return value(points[fullLoad]), true
	}
}

func fragmentedAtFullLoad(value func(Point) float64) func(*Recorder) (float64, bool) {
	at := atFullLoad(value)
	return func(r *Recorder) (float64, bool) {
		v, ok := at(r)
		return v, ok && r.usage.workload != nil
	}
}

// Run is what one simulation came to.
type Run struct {
	// Seed is what it was run with.
	Seed int64
	// Metrics are the values by key, of the metrics that the run has.
	Metrics map[string]float64
	// Points are the states at 0, 1, 2 … percent of arrived load; empty in a cluster
	// without devices.
	Points []Point
	// Placements are what became of each pod, in the order of arrival.
	Placements []Placement
	// PodGroups are what became of each PodGroup, in the order of arrival.
	PodGroups []PodGroup
}

// Run returns what has been recorded.
func (r *Recorder) Run(seed int64) Run {
	run := Run{Seed: seed, Metrics: map[string]float64{}, Placements: r.placements, PodGroups: r.podGroups}
	for _, metric := range Metrics() {
		if value, ok := metric.value(r); ok {
			run.Metrics[metric.Key] = round(value)
		}
	}
	if r.usage.capacity.milli > 0 {
		for _, p := range r.series.points() {
			run.Points = append(run.Points, Point{Allocated: round(p.Allocated), Fragmented: round(p.Fragmented), Ratio: round(p.Ratio)})
		}
	}
	return run
}

// round keeps four decimals: beyond them are the errors of sums.
func round(x float64) float64 {
	rounded := math.Round(x*1e4) / 1e4
	if rounded == 0 {
		return 0 // not -0
	}
	return rounded
}
