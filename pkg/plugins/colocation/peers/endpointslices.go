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
	// service is the name of the Service that it belongs to.
	service   string
	endpoints []endpoint
}

// endpoint is what matters of an endpoint: the pod behind it, or where it is
// without a pod: its node, or, if it names none, its zone. A pod is known by its
// UID, or by its name if that is missing.
type endpoint struct {
	podUID  types.UID
	podName string
	node    string
	zone    string
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
		if ptr.Deref(given.Conditions.Terminating, false) {
			continue
		}
		if node := ptr.Deref(given.NodeName, ""); node != "" {
			endpoints = append(endpoints, endpoint{node: node, family: object.AddressType})
		} else if zone := ptr.Deref(given.Zone, ""); zone != "" {
			endpoints = append(endpoints, endpoint{zone: zone, family: object.AddressType})
		}
	}
	return endpoints
}

// SyncEndpointSlice takes over the EndpointSlice of this name as the store has it.
func (x *Index) SyncEndpointSlice(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var known *slice
	if ns := x.namespaces[namespace]; ns != nil {
		known = ns.slices[name]
	}
	object := x.store.EndpointSlice(namespace, name)
	switch {
	case object == nil && known == nil:
	case object == nil:
		ns := x.namespaces[namespace]
		x.replaceSlice(ns, name, known, nil)
		x.release(ns)
	default:
		x.replaceSlice(x.namespaceOf(namespace), name, known, &slice{
			service:   object.Labels[discoveryv1.LabelServiceName],
			endpoints: newEndpoints(object),
		})
	}
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

// list counts an endpoint change times more.
func (x *Index) list(ns *namespace, g *group, e endpoint, change int) {
	if e.node != "" || e.zone != "" {
		x.listBare(g, e, change)
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

// listBare is list for an endpoint without a pod. A dual-stack Service lists each
// endpoint once for each family of addresses, and nothing tells which belong
// together: the family with the most endpoints on the node, or in the zone, decides.
func (x *Index) listBare(g *group, e endpoint, change int) {
	most := func() int {
		n := 0
		for _, family := range families {
			n = max(n, g.bare[endpoint{node: e.node, zone: e.zone, family: family}])
		}
		return n
	}
	before := most()
	g.bare[e] += change
	if g.bare[e] == 0 {
		delete(g.bare, e)
	}
	switch more := most() - before; {
	case more == 0:
	case e.node != "":
		x.count(g, e.node, more)
	default:
		g.countZone(e.zone, more)
	}
}

// families are the address families of EndpointSlices.
var families = [...]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN}
