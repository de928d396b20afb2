// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says why a pod has no node, and what would give it one.
//
//	Input (objects, profile, who serves which name)
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
// How near a node is, Berth's plugins say themselves (nearmiss.Plugin), and of what the
// others say package pending knows it (pending.Rank): the message of a pending pod and an
// explanation name the same node. The ranks of a node's verdicts are added up; among equals
// the node with the smallest gap comes first. A node that a plugin hides from the owner of
// the pod is counted and not named.
//
// # Adding a kind of change
//
// A file of its own with a function of type proposer, and an entry in the list
// proposers. It may propose freely: what does not help is found out.
package explain
