// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package randombinder is the smallest scheduler that is still safe to leave
// running: it watches the pending pods of its schedulerName, and binds each to
// a node drawn uniformly at random from the feasible ones. It scores nothing. It
// is the baseline against which other schedulers are measured, and an example of
// what list, watch and bind need to be right.
//
// Start at schedule in binder.go, which takes a pod from the work queue; cluster.go
// chooses its node. A pod whose Binding fails goes back into the queue, and the next
// attempt draws again.
//
// Three things keep that right:
//
//   - One place, cluster, holds the nodes and the pods, under one mutex and fed by
//     watch events alone. A pod becomes unschedulable in the same critical section
//     that found no node for it, so a node event is either seen by that decision or
//     wakes the pod; none falls between.
//   - The API server binds a pod at most once: it refuses a Binding for a pod that
//     has a node, or another UID. So nothing needs to be known about a Binding whose
//     answer is lost. With --fit=resources the pod's requests stay counted on every
//     node that it may have been bound to, until the watch shows the one that it has.
//   - The informers' first list is a consistent read, so a new process starts with
//     everything that its predecessor bound. Nothing is kept outside the API: a process
//     that is killed loses no pod.
//
// One process runs for a scheduler name; there is no leader election. Two that overlap
// bind no pod twice, but with --fit=resources they may together overcommit a node.
//
// Not considered, on purpose: priorities and preemption, pod affinity, topology
// spread, host ports, volumes, resource claims. See README.md.
package randombinder
