// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	corev1 "k8s.io/api/core/v1"
)

// MaxTopologyKeys is for how many topology keys the peers of one Service are kept
// up to date: those that Lookup was asked for last. Another one is counted when it
// is asked for, and takes the place of that which nobody asked for the longest.
//
// So the author of a pod cannot take memory by naming keys. A key that no node
// carries takes none at all; of those that nodes do carry, every Service keeps at
// most so many (or, if that is more, as many as one call names).
const MaxTopologyKeys = 16

// group counts the peers behind a Service that somebody asked for: it is watched.
type group struct {
	members membership
	// listed is whether EndpointSlices say who is a member.
	listed bool
	// anchor is where the group stands in namespace.selecting.
	anchor labelPair
	// bare counts the endpoints without a pod, by node or zone and address family.
	bare map[endpoint]int

	// placed are the peers by the node that they name, whether or not it exists.
	placed map[string]int
	// zones are the peers that name a zone and no node.
	zones map[string]int
	// What follows is about nodes that exist and about zones, and is empty until
	// counted is set.
	counted bool
	total   int
	nodes   counts
	levels  []level

	// view is what the above says; nil if it changed since somebody asked.
	view *View
}

// level is the peers by the values of a topology key.
type level struct {
	key    string
	counts counts
	// used is Index.clock when Lookup was asked for the key last.
	used uint64
}

// watch counts the peers behind a Service, and lets events keep the count.
func (x *Index) watch(ns *namespace, s *service) *group {
	g := &group{
		members: membership{namespace: ns.name, selector: s.selector},
		bare:    map[endpoint]int{},
		placed:  map[string]int{},
		zones:   map[string]int{},
	}
	x.groups[g] = struct{}{}
	switch {
	case s.external:
		g.members.selector = nil
	case len(s.selector) > 0:
		g.anchor = ns.anchorOf(s.selector)
		ns.selecting[g.anchor] = append(ns.selecting[g.anchor], g)
		for _, p := range ns.pods {
			if place := p.place(); place != "" && g.members.selects(p.facts.labels) {
				x.count(g, place, 1)
			}
		}
	default:
		g.listed = true
		ns.listing = append(ns.listing, g)
		for _, sl := range ns.slicesOf[s.name] {
			for _, e := range sl.endpoints {
				x.list(ns, g, e, 1)
			}
		}
	}
	known := make(map[string]int, len(g.placed))
	for name, peers := range g.placed {
		if x.nodes[name] != nil {
			known[name] = peers
			g.total += peers
		}
	}
	for _, peers := range g.zones {
		g.total += peers
	}
	g.nodes, g.counted = newCounts(known), true
	return g
}

// unwatch forgets the count of a Service's peers.
func (x *Index) unwatch(ns *namespace, s *service) {
	g := s.group
	if g == nil {
		return
	}
	s.group = nil
	delete(x.groups, g)
	if g.listed {
		ns.listing = without(ns.listing, g)
	}
	if rest := without(ns.selecting[g.anchor], g); len(rest) > 0 {
		ns.selecting[g.anchor] = rest
	} else {
		delete(ns.selecting, g.anchor)
	}
}

// anchorOf returns the pair of a selector under which the fewest groups stand: the
// less pods have a pair in common with a group that does not select them, the
// less there is to compare.
func (ns *namespace) anchorOf(selector []labelPair) labelPair {
	best := selector[0]
	for _, pair := range selector[1:] {
		if len(ns.selecting[pair]) < len(ns.selecting[best]) {
			best = pair
		}
	}
	return best
}

func without(groups []*group, g *group) []*group {
	for i := range groups {
		if groups[i] == g {
			last := len(groups) - 1
			groups[i], groups[last] = groups[last], nil
			return groups[:last]
		}
	}
	return groups
}

// count counts more peers on a node.
func (x *Index) count(g *group, name string, more int) {
	if g.placed[name] += more; g.placed[name] == 0 {
		delete(g.placed, name)
	}
	if n := x.nodes[name]; n != nil && g.counted {
		g.total += more
		g.nodes = g.nodes.add(name, more)
		g.spread(n, more)
		g.view = nil
	}
}

// countZone counts more peers in a zone, on no node that is known.
func (g *group) countZone(zone string, more int) {
	if g.zones[zone] += more; g.zones[zone] == 0 {
		delete(g.zones, zone)
	}
	if !g.counted {
		return
	}
	g.total += more
	for i := range g.levels {
		if l := &g.levels[i]; l.key == corev1.LabelTopologyZone {
			l.counts = l.counts.add(zone, more)
		}
	}
	g.view = nil
}

// relabel counts the peers of a node under its new labels; a node that is nil is
// not there.
func (g *group) relabel(name string, before, after *node) {
	peers := g.placed[name]
	if before != nil {
		g.total -= peers
		g.nodes = g.nodes.add(name, -peers)
		g.spread(before, -peers)
	}
	if after != nil {
		g.total += peers
		g.nodes = g.nodes.add(name, peers)
		g.spread(after, peers)
	}
	g.view = nil
}

// spread counts more peers on a node in every level.
func (g *group) spread(n *node, more int) {
	for i := range g.levels {
		l := &g.levels[i]
		if value, ok := n.labels[l.key]; ok {
			l.counts = l.counts.add(value, more)
		}
	}
}

// viewOf returns what the group says, with the levels of the keys.
func (g *group) viewOf(x *Index, keys []string) *View {
	for _, key := range keys {
		if l := g.level(x, key); l != nil {
			l.used = x.clock
		}
	}
	for len(g.levels) > MaxTopologyKeys && g.evict(x.clock) {
		g.view = nil
	}
	if g.view == nil {
		g.view = &View{members: g.members, total: g.total, nodes: g.nodes, levels: make([]viewLevel, len(g.levels))}
		for i := range g.levels {
			g.view.levels[i] = viewLevel{key: g.levels[i].key, counts: g.levels[i].counts}
		}
	}
	return g.view
}

// level returns the level of a key, counted if it was not kept; nil if no node
// carries the key.
func (g *group) level(x *Index, key string) *level {
	for i := range g.levels {
		if g.levels[i].key == key {
			return &g.levels[i]
		}
	}
	if x.keyUses[key] == 0 {
		return nil
	}
	sums := map[string]int{}
	for name, peers := range g.placed {
		if n := x.nodes[name]; n != nil {
			if value, ok := n.labels[key]; ok {
				sums[value] += peers
			}
		}
	}
	if key == corev1.LabelTopologyZone {
		for zone, peers := range g.zones {
			sums[zone] += peers
		}
	}
	g.levels = append(g.levels, level{key: key, counts: newCounts(sums)})
	g.view = nil
	return &g.levels[len(g.levels)-1]
}

// evict forgets the level that was not asked for the longest, unless it was asked
// for now.
func (g *group) evict(now uint64) bool {
	oldest := 0
	for i := range g.levels {
		if g.levels[i].used < g.levels[oldest].used {
			oldest = i
		}
	}
	if g.levels[oldest].used == now {
		return false
	}
	last := len(g.levels) - 1
	g.levels[oldest], g.levels[last] = g.levels[last], level{}
	g.levels = g.levels[:last]
	return true
}
