// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodecandidates is a plugin that lets a plugin with an index of all nodes
// decide in a cluster of which the scheduler looks at a part.
//
// Above 100 nodes kube-scheduler stops looking as soon as it has found a part of them
// on which the pod fits (percentageOfNodesToScore): of 5,000 nodes it sees 500. A
// plugin that knows by itself which nodes are best leaves a ranking of all of them in
// the cycle (package candidates). NodeCandidates is the last PreFilter plugin of the
// profile. It combines the rankings by the weights of the plugins' scores, finds the
// best node that the pod fits on, and offers the framework that node and all others
// that may still win: those that the scores of all other plugins together could lift
// above it. So nothing is left out that the profile as a whole prefers, and the
// framework's filters and scores run on a few nodes instead of hundreds.
//
// Of more than a hundred nodes that may win it offers the best hundred, and of equal ones
// others with each pod: the scheduler's least sample has as many, and the cost of a cycle
// does not grow with the number of equal nodes. Nor does it try more than a tenth of the
// nodes in vain: then the cycle is as without the plugin.
//
//	rankings of plugins      all nodes        100 nodes or fewer, or nothing to gain
//	  GPUDevice  2000 ──┐       │                        │
//	  Colocation 2000 ──┴─▶ best that fits ──▶ those that can still win ──▶ Filter, Score
//
// A PreFilterResult leaves the other nodes out for good, which a preference must not do.
// So nodes are offered only after one of them has passed the filters of all plugins in a
// dry run. If in the end none of them passes, because another pod was nominated for the
// node in between or a plugin decides differently when it is asked a second time,
// PostFilter has the pod tried again at once with all nodes, before anybody is evicted
// for it.
//
// Everything is as without the plugin in a profile that sets percentageOfNodesToScore to
// 100, for pods that no plugin ranks nodes for, nominated pods, the cycles of pod groups,
// and pods that an extender filters or scores nodes for.
package nodecandidates
