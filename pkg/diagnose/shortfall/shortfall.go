// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shortfall says how far a node is from taking a pod: once, for the running
// scheduler's message and for an explanation alike. Berth's plugins measure nodes
// themselves ([Plugin]); [Ranking] adds what the other plugins' verdicts amount to.
package shortfall

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Ranks are how far a node is by one cause; those of several causes are added. Of two
// nodes with equal sums the one that lacks less is nearer.
const (
	// Busy is a node where other pods use what the pod asks for.
	Busy = 1
	// Closed is a node that the pod asks for and that a taint keeps it from.
	Closed = 2
	// Apart is a node where the rules of pods conflict.
	Apart = 3
	// Other is a node that is not what the pod asks for, or that is meant for other pods.
	Other = 4
	// Small is a node that has less than the pod asks for even when it is empty.
	Small = 5
	// Cordoned is a node that takes no new pods.
	Cordoned = 6
	// Unlike is a node without the labels or the name that the pod asks for.
	Unlike = 7
	// Lacks is a node that has none of what the pod asks for.
	Lacks = 12
	// Hidden is a node that the pod's owner must not learn of.
	Hidden = 1000
)

// Plugin is a Filter plugin that measures the nodes that it rejects.
type Plugin interface {
	fwk.Plugin
	// NearMiss returns how far nodes are for the pod; nil if the plugin accepts every node,
	// or none. It is called where Filter may be, after a failed attempt.
	NearMiss(pod *corev1.Pod) Measure
}

// Viewer is a plugin that keeps nodes from pods and hides them from the pods' owners.
type Viewer interface {
	fwk.Plugin
	// View returns the part of the cluster that the pod's owner may know of; nil if that is
	// all of it. It is called after a failed attempt.
	View(pod *corev1.Pod) *View
}

// View is the part of the cluster that a pod's owner may know of.
type View struct {
	// Sees reports whether the node belongs to it.
	Sees func(node *corev1.Node) bool
	// Empty says why there is no node for the pod if Sees reports false for all.
	Empty string
}

// Measure is what one plugin finds missing on nodes for one pod. It is not safe for
// concurrent use.
type Measure interface {
	// Distance returns the rank of the node and how much is missing there, in relation to
	// what is asked for; 0, 0 if nothing is.
	Distance(node fwk.NodeInfo) (rank int, gap float64)
	// Describe says what is missing there, as in "device 2 has 800m free, and the pod
	// requests 1000m". It is called for few nodes.
	Describe(node fwk.NodeInfo) string
}
