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
// Each verdict of a plugin has a rank: what only time or another pod's end takes away
// (no free share, a port in use) is nearer than a taint, a taint is nearer than a label
// that the pod does not ask for, and farthest is a node that has not at all what the pod
// asks for. The ranks of a node's verdicts are added up; among equals the node with the
// smallest gap comes first.
//
// # Adding a kind of change
//
// A file of its own with a function of type proposer, and an entry in the list
// proposers. It may propose freely: what does not help is found out.
package explain
