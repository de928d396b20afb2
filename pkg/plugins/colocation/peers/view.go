// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	corev1 "k8s.io/api/core/v1"
)

// View is where the peers behind a Service were when Index.Lookup returned it.
// It never changes, takes no lock, and may be read from any goroutine; reading
// allocates nothing.
//
// A peer is a pod behind the Service that has a node, or has one reserved
// (Index.Reserve), and runs or will run: not terminating, not Succeeded, not
// Failed. Whether it is ready does not matter, because it is about to be. An
// endpoint without a pod counts as a peer on the node that it names; one that names
// a zone only counts in Total and in the level topology.kubernetes.io/zone. Peers on
// nodes that do not exist (any more) are nowhere, and do not count at all.
type View struct {
	members membership
	total   int
	nodes   counts
	levels  []viewLevel
}

type viewLevel struct {
	key    string
	counts counts
}

// Total returns the number of peers.
func (v *View) Total() int { return v.total }

// Within returns the number of peers on nodes whose label topologyKey has the
// value. It is 0 for a key that Lookup was not told of, so tell it. In a loop over
// nodes, Level is faster.
func (v *View) Within(topologyKey, value string) int {
	return v.Level(topologyKey).Within(value)
}

// Level returns the peers by the values of one topology key; an empty level for a
// key that Lookup was not told of, or that no node with a peer carries.
func (v *View) Level(topologyKey string) Level {
	for i := range v.levels {
		if v.levels[i].key == topologyKey {
			return Level{counts: v.levels[i].counts}
		}
	}
	return Level{}
}

// OnNode returns the number of peers on the node of this name.
func (v *View) OnNode(name string) int { return v.nodes.get(name) }

// Nodes calls yield with every node that has a peer and the number of its peers,
// in no particular order, until yield returns false.
func (v *View) Nodes(yield func(node string, peers int) bool) { v.nodes.all(yield) }

// HoldsNew reports whether a value of a topology key that both views were asked for
// holds a peer in v and none in before; before may be nil, and has none then. It
// compares nothing if the two are one view.
func (v *View) HoldsNew(before *View, topologyKey string) bool {
	if v == before {
		return false
	}
	var had Level
	if before != nil {
		had = before.Level(topologyKey)
	}
	found := false
	v.Level(topologyKey).All(func(value string, _ int) bool {
		found = had.Within(value) == 0
		return !found
	})
	return found
}

// NodeCount returns the number of nodes that have a peer.
func (v *View) NodeCount() int { return v.nodes.len() }

// IsPeer reports whether the pod is, or would be on a node of its own, a peer: it
// is behind the Service and neither terminating nor terminated. It looks at what
// it is given and not at what the index knows of the pod, so that the simulations
// of preemption can add and remove pods.
func (v *View) IsPeer(pod *corev1.Pod) bool {
	return pod.Namespace == v.members.namespace && !isGone(pod) && v.members.has(pod.Name, pod.UID, pod.Labels)
}

// Level is the peers of a View by the values of one topology key. The zero value
// has none.
type Level struct {
	counts counts
}

// Within returns the number of peers on nodes with this value of the key.
func (l Level) Within(value string) int { return l.counts.get(value) }

// Len returns the number of values with a peer.
func (l Level) Len() int { return l.counts.len() }

// All calls yield with every value that has a peer and the number of its peers, in
// no particular order, until yield returns false.
func (l Level) All(yield func(value string, peers int) bool) { l.counts.all(yield) }
