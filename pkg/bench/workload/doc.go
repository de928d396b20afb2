// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reads the file that says what a benchmark runs, and writes it out
// as the objects to create.
//
// Read decodes a file strictly, fills in defaults and checks every field; all that is
// wrong is told at once, with paths such as spec.pods[0].gpu.milli. config/bench has
// the files that are shipped, and its README.md describes every field.
//
// Workload.Plan writes a workload out for schedulers of one RequestFormat: the nodes, and the
// pods with the times at which they arrive. What is left to chance is decided by the
// workload's seed, so every scheduler gets the same pods in the same order at the same
// times, in every round. Plan.Group says of each pod what was asked for, whatever the
// format: what a result is measured against.
//
// The package is pure but for the reading of files: it talks to no cluster, and
// neither namespaces nor marks of a run are its business.
package workload
