// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace reads the CSV files of the openb trace, Alibaba's GPU-sharing
// trace of 2023, turns their rows into API objects, and puts the pods into the
// order in which they arrive.
//
//	nodes.csv --+                                  +-- Node.Object --> corev1.Node
//	            +-- Trace.Read --> Trace (rows) ---+
//	pods.csv ---+                                  +-- Arrivals --> rows in order
//	                                                      |
//	                                                      +-- Pod.Object --> corev1.Pod
//
// For schedulers that know no shares of devices [Trace.WholeDevices] makes the same
// objects with whole ones.
//
// # Files
//
// A file is known by its header, not by its name. Columns may stand in any order.
//
//	nodes: sn, cpu_milli, memory_mib, gpu, model
//	pods:  name, cpu_milli, memory_mib, num_gpu, gpu_milli
//	       and, where the list has them: gpu_spec, qos, pod_phase,
//	       creation_time, deletion_time, scheduled_time
//
// Amounts are milli-CPU, MiB, and thousandths of one device (gpu_milli, below 1000
// only with num_gpu 1). gpu is the number of a node's devices, all of one model.
// gpu_spec lists the models that a pod accepts, separated by |; empty accepts all.
// The times are in seconds and may be empty; they are checked, and nothing uses
// them yet: pods arrive in the order of [Arrivals] and stay.
//
// Reading is strict. An unknown, missing or repeated column, a value that is no
// number, negative or out of its range, a name that is not one of Kubernetes' or
// that is given more than once, a row with too many or too few fields, and a last
// line without a line feed, by which a file that was cut off is known, are errors.
// Each is an *[Error] with file, line and column.
package trace
