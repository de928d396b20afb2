// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"slices"
	"testing"
)

// The metrics of a run. Topics add their own, which are printed and not compared.
const (
	// Throughput is in pods per second, from the first measured pod's creation to the
	// last one's binding, as the scheduler's informer sees them.
	Throughput = "throughput"
	// Algorithm is the mean of scheduling_algorithm_duration_seconds over the measured
	// pods, in milliseconds.
	Algorithm = "algorithm"
	// SchedulerCPU is the CPU time of the scheduler's code in milliseconds per
	// measured pod, as sampled; schedulerCode says what counts.
	SchedulerCPU = "schedulerCPU"
	// ProcessCPU is the CPU time of the whole process, API server and load generator
	// included, in milliseconds per measured pod. It is exact.
	ProcessCPU = "processCPU"
	// Batched is the part of the measured pods that took the node which batching had
	// ready for them, 0 to 1.
	Batched = "batched"
	// Victims is how many pods were chosen to be evicted. Absent if none was.
	Victims = "victims"
	// SampledThroughput is scheduler_perf's own throughput: the mean of samples of a
	// second each, absent if all pods were placed within two.
	SampledThroughput = "SchedulingThroughput"
)

// metric says how to print and compare a metric.
type metric struct {
	name, title, format string
	// compared metrics have a ratio.
	compared bool
	// unit is what benchstat calls it, empty if scheduler_perf shows it itself.
	unit string
}

var known = []metric{
	{Throughput, "pods/s", "%.0f", true, "pods/s"},
	{SampledThroughput, "sampled pods/s", "%.0f", true, ""},
	{Algorithm, "algorithm ms", "%.3f", true, "algorithm-ms/pod"},
	{SchedulerCPU, "scheduler CPU ms/pod", "%.2f", true, "scheduler-CPU-ms/pod"},
	{ProcessCPU, "process CPU ms/pod", "%.2f", true, "process-CPU-ms/pod"},
	{Batched, "batched", "%.2f", false, "batched/pod"},
	{Victims, "victims", "%.0f", false, "victims"},
}

// columns returns the metrics that at least one run has: the known ones first.
func columns(runs []Measurement) []metric {
	var has []string
	for i := range runs {
		for name := range runs[i].Metrics {
			if !slices.Contains(has, name) {
				has = append(has, name)
			}
		}
	}
	slices.Sort(has)
	var all []metric
	for _, m := range known {
		if i := slices.Index(has, m.name); i >= 0 {
			all = append(all, m)
			has = slices.Delete(has, i, i+1)
		}
	}
	for _, name := range has {
		all = append(all, metric{name: name, title: name, format: "%.3g"})
	}
	return all
}

// show adds the metrics to a benchmark's line, for benchstat.
func (m *Measurement) show(b *testing.B) {
	b.Helper()
	for _, metric := range known {
		if value, has := m.Metrics[metric.name]; has && metric.unit != "" {
			b.ReportMetric(value, metric.unit)
		}
	}
}
