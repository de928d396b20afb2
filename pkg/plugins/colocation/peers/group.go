// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// MaxTopologyKeys is for how many topology keys the peers of one Service are kept
// up to date: those that Lookup was asked for last. Another one is counted when it
// is asked for, and takes the place of that which nobody asked for the longest.
//
// So the author of a pod cannot take memory by naming keys. A key that no node
// carries takes none at all; of those that nodes do carry, every Service keeps at
// most so many (or, if that is more, as many as one call names).
const MaxTopologyKeys = 16

// group counts the peers behind a Service that Lookup was called for: it is watched.
type group struct {
	// service is the name of the Service.
	service string
	members membership
	// listed is whether EndpointSlices say who is a member; byUID and byName count
	// the endpoints that do, and bare those without a pod, by node or zone and
	// address family.
	listed        bool
	byUID, byName counts
	bare          map[endpoint]int
	// anchor is where the group stands in namespace.selecting.
	anchor labelPair

	// placed are the peers by the node that they name, whether or not it exists.
	placed map[string]int
	// zones are the peers that name a zone and no node.
	zones map[string]int
	// total and levels are about nodes that exist, and about zones.
	total  int
	levels []level

	// view is what the above says; nil if it changed since the last Lookup.
	view *View
}

// level is the peers by the values of a topology key.
type level struct {
	key    string
	counts counts
	// used is Index.clock when Lookup was asked for the key last.
	used uint64
}

type labelPair struct{ key, value string }

// membership says which pods of a namespace are behind a Service. It never
// changes.
type membership struct {
	namespace string
	// selector is the Service's, sorted by key. Without one, the pods are those
	// that byUID and byName have.
	selector      []labelPair
	byUID, byName Level
}

// has reports whether the pod of the namespace is behind the Service.
func (m *membership) has(pod *corev1.Pod) bool {
	if len(m.selector) > 0 {
		return m.selects(pod.Labels)
	}
	return m.byUID.Within(string(pod.UID)) > 0 || m.byName.Within(pod.Name) > 0
}

// selects is has for a Service with a selector.
func (m *membership) selects(labels map[string]string) bool {
	for _, pair := range m.selector {
		if value, ok := labels[pair.key]; !ok || value != pair.value {
			return false
		}
	}
	return true
}

// lists reports whether an EndpointSlice lists the pod of the group's namespace.
func (g *group) lists(pod *corev1.Pod) bool {
	return g.byUID.Within(string(pod.UID)) > 0 || g.byName.Within(pod.Name) > 0
}

// watch counts the peers behind a Service, and lets events keep the count.
func (x *Index) watch(ns *namespace, service *corev1.Service) *group {
	g := &group{
		service: service.Name,
		members: membership{namespace: ns.name},
		bare:    map[endpoint]int{},
		placed:  map[string]int{},
		zones:   map[string]int{},
	}
	x.groups[g] = struct{}{}
	switch {
	case isExternal(service):
	case len(service.Spec.Selector) > 0:
		for key, value := range service.Spec.Selector {
			g.members.selector = append(g.members.selector, labelPair{key, value})
		}
		slices.SortFunc(g.members.selector, func(a, b labelPair) int { return cmp.Compare(a.key, b.key) })
		g.anchor = ns.anchorOf(g.members.selector)
		ns.selecting[g.anchor] = append(ns.selecting[g.anchor], g)
		for _, p := range ns.pods {
			if node := p.node(); node != "" && g.members.selects(p.object.Labels) {
				x.count(g, node, 1)
			}
		}
	default:
		g.listed = true
		ns.listing = append(ns.listing, g)
		for _, slice := range ns.slices {
			if slice.Labels[discoveryv1.LabelServiceName] == service.Name {
				for e := range endpointsOf(slice) {
					x.list(ns, g, e, 1)
				}
			}
		}
	}
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
	is := func(other *group) bool { return other == g }
	ns.listing = slices.DeleteFunc(ns.listing, is)
	if rest := slices.DeleteFunc(ns.selecting[g.anchor], is); len(rest) > 0 {
		ns.selecting[g.anchor] = rest
	} else {
		delete(ns.selecting, g.anchor)
	}
}

// anchorOf returns the pair of a selector under which the fewest groups stand: the
// less pods have a pair in common with a group that does not select them, the
// less there is to compare.
func (ns *namespace) anchorOf(selector []labelPair) labelPair {
	return slices.MinFunc(selector, func(a, b labelPair) int {
		return cmp.Compare(len(ns.selecting[a]), len(ns.selecting[b]))
	})
}

// list counts an endpoint of a group of the namespace so many times more.
func (x *Index) list(ns *namespace, g *group, e endpoint, more int) {
	if e.node != "" || e.zone != "" {
		x.listBare(g, e, more)
		return
	}
	p := ns.pods[e.podName]
	if e.podUID != "" {
		if p = x.podsByUID[e.podUID]; p != nil && p.ns != ns {
			p = nil
		}
	}
	before := p != nil && g.lists(p.object)
	if e.podUID != "" {
		g.byUID.add(string(e.podUID), more)
	} else {
		g.byName.add(e.podName, more)
	}
	g.view = nil
	// A pod that several endpoints name (one for each of its addresses' families)
	// is one peer.
	if p == nil || p.node() == "" || before == g.lists(p.object) {
		return
	}
	if before {
		x.count(g, p.node(), -1)
	} else {
		x.count(g, p.node(), 1)
	}
}

// listBare is list for an endpoint without a pod. A dual-stack Service lists each
// endpoint once for each family of addresses, and nothing tells which belong
// together: the family with the most endpoints on the node, or in the zone, decides.
func (x *Index) listBare(g *group, e endpoint, more int) {
	most := func() int {
		n := 0
		for _, family := range [...]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN} {
			n = max(n, g.bare[endpoint{node: e.node, zone: e.zone, family: family}])
		}
		return n
	}
	before := most()
	addTo(g.bare, e, more)
	if more = most() - before; more == 0 {
		return
	}
	if e.node != "" {
		x.count(g, e.node, more)
		return
	}
	addTo(g.zones, e.zone, more)
	g.total += more
	for i := range g.levels {
		if l := &g.levels[i]; l.key == corev1.LabelTopologyZone {
			l.counts.add(e.zone, more)
		}
	}
	g.view = nil
}

// addTo adds to a number of a map, without those that are 0.
func addTo[K comparable](numbers map[K]int, key K, more int) {
	if numbers[key] += more; numbers[key] == 0 {
		delete(numbers, key)
	}
}

// count counts more peers on the node of this name.
func (x *Index) count(g *group, name string, more int) {
	addTo(g.placed, name, more)
	g.countOn(x.nodes[name], more)
}

// countOn counts more peers on a node in every level; nil is none that exists.
func (g *group) countOn(node *corev1.Node, more int) {
	if node == nil {
		return
	}
	g.total += more
	for i := range g.levels {
		l := &g.levels[i]
		if value, ok := node.Labels[l.key]; ok {
			l.counts.add(value, more)
		}
	}
	g.view = nil
}

// viewOf returns what the group says, with the levels of the keys.
func (g *group) viewOf(x *Index, keys []string) *View {
	for _, key := range keys {
		at := slices.IndexFunc(g.levels, func(l level) bool { return l.key == key })
		if at < 0 {
			if x.keyUses[key] == 0 {
				continue // no node carries the key
			}
			at = g.addLevel(x, key)
		}
		g.levels[at].used = x.clock
	}
	for len(g.levels) > MaxTopologyKeys && g.evict(x.clock) {
		g.view = nil
	}
	if g.view == nil {
		g.view = &View{members: g.members, total: g.total, levels: make([]viewLevel, len(g.levels))}
		g.view.members.byUID, g.view.members.byName = g.byUID.snapshot(), g.byName.snapshot()
		for i := range g.levels {
			g.view.levels[i] = viewLevel{key: g.levels[i].key, level: g.levels[i].counts.snapshot()}
		}
	}
	return g.view
}

// addLevel counts the peers by the values of a key, and returns the index of the level.
func (g *group) addLevel(x *Index, key string) int {
	l := level{key: key}
	for name, peers := range g.placed {
		if node := x.nodes[name]; node != nil {
			if value, ok := node.Labels[l.key]; ok {
				l.counts.add(value, peers)
			}
		}
	}
	if key == corev1.LabelTopologyZone {
		for zone, peers := range g.zones {
			l.counts.add(zone, peers)
		}
	}
	g.levels = append(g.levels, l)
	g.view = nil
	return len(g.levels) - 1
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
	g.levels = slices.Delete(g.levels, oldest, oldest+1)
	return true
}
