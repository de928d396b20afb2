// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run is the experiment of a benchmark: the same pods through each scheduler,
// in rounds, and what is measured meanwhile.
//
//	number 1:  A  B  C      each: clear the namespace, nodes, Services and existing
//	number 2:  B  C  A      pods; start the scheduler; it answers a probe pod; create
//	number 3:  C  A  B      the pods; wait until the queue has settled; measure; stop
//	steady 1:  A  B  C      the same pods, evenly at 80 % of what the scheduler reached
//
// Every number comes from one of four places:
//
//   - A watch of the pods, with this process's monotonic clock: when a pod's creation
//     was sent, and when the event arrived that shows its node. The recorder does
//     nothing else in between.
//   - The scheduler's own metrics, before the first pod and after the last: requests,
//     CPU, memory. Renewals of its lease are counted by a watch and taken off.
//   - The pods and nodes at the end: who is where, and what that is worth.
//   - The limits of the clients: whom they held up makes a round invalid.
//
// A device that two pods hold at once, or a node that is asked for more than it has,
// is an error and no number: the schedulers here must not do that.
package run
