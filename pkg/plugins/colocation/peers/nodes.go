// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"
)

// node is what the index knows of a node. labels is the map of the object that it
// was read from, which nobody changes.
type node struct {
	labels map[string]string
}

// SyncNode takes over the node of this name as the store has it. Peers on a node
// that goes are counted again when one of its name comes.
func (x *Index) SyncNode(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.nodes[name]
	object := x.store.Node(name)
	switch {
	case object == nil && known == nil:
	case object == nil:
		x.replaceNode(name, known, nil)
	case known != nil && maps.Equal(known.labels, object.Labels):
		known.labels = object.Labels // a heartbeat, as a rule; the old map can go
	default:
		x.replaceNode(name, known, &node{labels: object.Labels})
	}
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
