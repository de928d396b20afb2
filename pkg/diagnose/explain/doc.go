// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why a pod has no node, and what would give it one.
//
//	Input (objects, profile, who handles which schedulerName)
//	   │ engine: the profile's own code on the objects
//	   ▼
//	what each plugin says of each node ──▶ groups of nodes, the nearest first
//	   │
//	   ▼
//	proposers, one small file each: what might help ──▶ the engine tries each ──▶ Explanation
//
// Nothing is written to a cluster, and nothing that was not tried is proposed: a
// [Change] is in an [Explanation] because the engine placed the pod with it.
//
// # Nearness
//
// Package shortfall ranks the nodes, by what Berth's plugins measure and by the other
// plugins' verdicts. The message of a pending pod asks the same ranking, and so names the
// same node where both know the same verdicts: the scheduler stops at the first. A node
// that a plugin hides from the owner of the pod is counted and not named.
//
// # Adding a kind of change
//
// Add a file with a function of type proposer, and an entry in the list proposers. It may
// propose freely: changes that do not help are discarded.
package explain
