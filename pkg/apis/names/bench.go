// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package names

const (
	// BenchLabel is the label that everything carries which a benchmark puts into a
	// cluster; its value is the run's id. The taint of the run's fake nodes has the
	// same key and value.
	BenchLabel = prefix + "bench"
	// BenchPrefix is what the names of a run's namespace and of its fake nodes start
	// with; the run's id follows.
	BenchPrefix = "berth-bench-"
	// BenchAPIVersion is the apiVersion of the files that describe a benchmark's
	// workload.
	BenchAPIVersion = "bench." + prefix + "v1alpha1"
)
