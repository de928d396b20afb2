// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// slice is what the index knows of an EndpointSlice.
type slice struct {
	version version
	// service is the name of the Service that it belongs to.
	service   string
	endpoints []endpoint
}

// endpoint is what matters of an endpoint: the pod behind it, or the node where it
// is without a pod. A pod is known by its UID, or by its name if that is missing.
type endpoint struct {
	podUID  types.UID
	podName string
	node    string
	family  discoveryv1.AddressType
}

// newEndpoints returns the endpoints of the object that can be peers.
func newEndpoints(object *discoveryv1.EndpointSlice) []endpoint {
	endpoints := make([]endpoint, 0, len(object.Endpoints))
	for i := range object.Endpoints {
		given := &object.Endpoints[i]
		if ref := given.TargetRef; ref != nil && ref.Kind == "Pod" {
			// Where a pod is, the pod says. One of another namespace does not count:
			// whoever may write EndpointSlices in one namespace could find out where
			// the pods of every other are.
			if ref.Namespace != "" && ref.Namespace != object.Namespace {
				continue
			}
			switch {
			case ref.UID != "":
				endpoints = append(endpoints, endpoint{podUID: ref.UID})
			case ref.Name != "":
				endpoints = append(endpoints, endpoint{podName: ref.Name})
			}
			continue
		}
		if node := ptr.Deref(given.NodeName, ""); node != "" && !ptr.Deref(given.Conditions.Terminating, false) {
			endpoints = append(endpoints, endpoint{node: node, family: object.AddressType})
		}
	}
	return endpoints
}

// ApplyEndpointSlice takes over a change of an EndpointSlice from old to updated,
// either nil. It may be told the same change any number of times and changes in
// any order: what is older than what it knows, it ignores.
func (x *Index) ApplyEndpointSlice(old, updated *discoveryv1.EndpointSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil && (updated == nil || old.UID != updated.UID) {
		x.burySlice(old)
	}
	if updated != nil {
		x.observeSlice(updated)
	}
}

func (x *Index) observeSlice(object *discoveryv1.EndpointSlice) {
	known := x.slice(object)
	if !x.goneSlices.admit(object, known.known()) {
		return
	}
	ns := x.namespaceOf(object.Namespace)
	x.replaceSlice(ns, object.Name, known, &slice{
		version:   versionOf(object),
		service:   object.Labels[discoveryv1.LabelServiceName],
		endpoints: newEndpoints(object),
	})
}

func (x *Index) burySlice(object *discoveryv1.EndpointSlice) {
	known := x.slice(object)
	if !x.goneSlices.bury(object, known.known()) {
		return
	}
	ns := x.namespaces[object.Namespace]
	x.replaceSlice(ns, object.Name, known, nil)
	x.release(ns)
}

// slice returns the EndpointSlice of the object's name, or nil.
func (x *Index) slice(object *discoveryv1.EndpointSlice) *slice {
	if ns := x.namespaces[object.Namespace]; ns != nil {
		return ns.slices[object.Name]
	}
	return nil
}

func (s *slice) known() *version {
	if s == nil {
		return nil
	}
	return &s.version
}

// replaceSlice puts one EndpointSlice into the place of another, either nil.
func (x *Index) replaceSlice(ns *namespace, name string, before, after *slice) {
	if before != nil && after != nil && before.service == after.service {
		x.relist(ns, before.service, before.endpoints, after.endpoints)
	} else {
		if before != nil {
			x.relist(ns, before.service, before.endpoints, nil)
		}
		if after != nil {
			x.relist(ns, after.service, nil, after.endpoints)
		}
	}
	if before != nil {
		delete(ns.slices, name)
		delete(ns.slicesOf[before.service], name)
		if len(ns.slicesOf[before.service]) == 0 {
			delete(ns.slicesOf, before.service)
		}
	}
	if after != nil {
		ns.slices[name] = after
		if ns.slicesOf[after.service] == nil {
			ns.slicesOf[after.service] = map[string]*slice{}
		}
		ns.slicesOf[after.service][name] = after
	}
}

// relist brings the group of a Service that goes by EndpointSlices, if it is
// watched, from the endpoints before to those after. Of a slice that changes,
// little does as a rule.
func (x *Index) relist(ns *namespace, service string, before, after []endpoint) {
	s := ns.services[service]
	if s == nil || s.group == nil || !s.group.listed {
		return
	}
	for e, change := range changesOf(before, after) {
		if change != 0 {
			x.list(ns, s.group, e, change)
		}
	}
}

// changesOf counts by how many each endpoint is listed more often after than before.
func changesOf(before, after []endpoint) map[endpoint]int {
	changes := make(map[endpoint]int, len(before)+len(after))
	for _, e := range before {
		changes[e]--
	}
	for _, e := range after {
		changes[e]++
	}
	return changes
}

// SameEndpoints reports whether two versions of an EndpointSlice say the same to the
// index: they belong to one Service and list the same pods and nodes. Whether an
// endpoint is ready does not matter to it.
func SameEndpoints(old, updated *discoveryv1.EndpointSlice) bool {
	if old.Labels[discoveryv1.LabelServiceName] != updated.Labels[discoveryv1.LabelServiceName] {
		return false
	}
	for _, change := range changesOf(newEndpoints(old), newEndpoints(updated)) {
		if change != 0 {
			return false
		}
	}
	return true
}

// list counts an endpoint change times more.
func (x *Index) list(ns *namespace, g *group, e endpoint, change int) {
	if e.node != "" {
		x.listNode(g, e, change)
		return
	}
	p := ns.pods[e.podName]
	if e.podUID != "" {
		if p = x.podsByUID[e.podUID]; p != nil && p.ns != ns {
			p = nil
		}
	}
	listed := func() bool { return p != nil && g.members.lists(p.facts.name, p.facts.uid) }
	before := listed()
	if e.podUID != "" {
		g.members.byUID = g.members.byUID.add(string(e.podUID), change)
	} else {
		g.members.byName = g.members.byName.add(e.podName, change)
	}
	g.view = nil
	// A pod that several endpoints name (one for each of its addresses' families)
	// is one peer.
	if after := listed(); before != after && p.place() != "" {
		if after {
			x.count(g, p.place(), 1)
		} else {
			x.count(g, p.place(), -1)
		}
	}
}

// listNode is list for an endpoint without a pod. A dual-stack Service lists each
// endpoint once for each family of addresses, and nothing tells which belong
// together: the family with the most endpoints on the node decides.
func (x *Index) listNode(g *group, e endpoint, change int) {
	most := func() int {
		n := 0
		for _, family := range families {
			n = max(n, g.bare[endpoint{node: e.node, family: family}])
		}
		return n
	}
	before := most()
	g.bare[e] += change
	if g.bare[e] == 0 {
		delete(g.bare, e)
	}
	if more := most() - before; more != 0 {
		x.count(g, e.node, more)
	}
}

// families are the address families of EndpointSlices.
var families = [...]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN}
