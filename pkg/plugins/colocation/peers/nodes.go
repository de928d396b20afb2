// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// node is what the index knows of a node. labels is the map of the object that it
// was read from, which nobody changes.
type node struct {
	version version
	labels  map[string]string
}

// ApplyNode takes over a change of a node from old to updated, either nil. It may
// be told the same change any number of times and changes in any order: what is
// older than what it knows, it ignores. Peers on a node that goes are counted
// again when one of its name comes.
func (x *Index) ApplyNode(old, updated *corev1.Node) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil && (updated == nil || old.UID != updated.UID) {
		x.buryNode(old)
	}
	if updated != nil {
		x.observeNode(updated)
	}
}

func (x *Index) observeNode(object *corev1.Node) {
	known := x.nodes[object.Name]
	if !x.goneNodes.admit(object, known.known()) {
		return
	}
	news := versionOf(object)
	if known != nil && maps.Equal(known.labels, object.Labels) {
		// A heartbeat, as a rule.
		known.version, known.labels = news, object.Labels
		return
	}
	x.replaceNode(object.Name, known, &node{version: news, labels: object.Labels})
}

func (x *Index) buryNode(object *corev1.Node) {
	known := x.nodes[object.Name]
	if x.goneNodes.bury(object, known.known()) {
		x.replaceNode(object.Name, known, nil)
	}
}

func (n *node) known() *version {
	if n == nil {
		return nil
	}
	return &n.version
}

// replaceNode puts one node into the place of another of its name, either nil.
func (x *Index) replaceNode(name string, before, after *node) {
	for g := range x.groups {
		if g.placed[name] != 0 {
			g.relabel(name, before, after)
		}
	}
	if before != nil {
		for key := range before.labels {
			if x.keyUses[key]--; x.keyUses[key] == 0 {
				delete(x.keyUses, key)
			}
		}
	}
	if after == nil {
		delete(x.nodes, name)
		return
	}
	for key := range after.labels {
		x.keyUses[key]++
	}
	x.nodes[name] = after
}
