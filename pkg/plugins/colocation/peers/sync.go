// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// SyncPod takes over the pod of this name as the store has it.
func (x *Index) SyncPod(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.syncPod(namespace, name)
}

// noPod stands for a pod that was not seen before. Nobody writes it.
var noPod = &corev1.Pod{}

// syncPod is SyncPod while mu is held. It returns the pod, or nil.
func (x *Index) syncPod(namespace, name string) *pod {
	ns := x.namespaceOf(namespace)
	defer x.release(ns)
	p := ns.pods[name]
	var key string
	if p != nil {
		key = p.key
	} else {
		key = namespace + "/" + name
	}
	object := read[corev1.Pod](x.stores.Pods, key)
	if p != nil && (object == nil || p.object.UID != object.UID) {
		x.recount(ns, p.object, p.node(), p.object, "")
		delete(ns.pods, name)
		delete(x.podsByUID, p.object.UID)
		p = nil
	}
	if object == nil {
		return nil
	}
	if p == nil {
		p = &pod{ns: ns, key: key, object: noPod}
		ns.pods[name] = p
		if object.UID != "" {
			x.podsByUID[object.UID] = p
		}
	}
	before, from := p.object, p.node()
	p.object = object
	if object.Spec.NodeName != "" {
		p.reserved = ""
	}
	x.recount(ns, before, from, object, p.node())
	return p
}

// Reserve lets the pod count on the node that it was given, until it is seen to
// have one, or is unreserved or deleted. A second call replaces the first. A pod
// that the store does not have is gone: it counts nowhere.
func (x *Index) Reserve(object *corev1.Pod, node string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.syncPod(object.Namespace, object.Name); p != nil && p.object.UID == object.UID && p.object.Spec.NodeName == "" {
		x.reserve(p, node)
	}
}

// Unreserve takes the reservation of a pod back, if there is one and the pod was
// not seen to have a node.
func (x *Index) Unreserve(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.podsByUID[uid]; p != nil {
		x.reserve(p, "")
	}
}

func (x *Index) reserve(p *pod, node string) {
	from := p.node()
	p.reserved = node
	x.recount(p.ns, p.object, from, p.object, p.node())
}

// recount moves a pod from the node and the version where it counted to where it
// counts; empty for nowhere.
func (x *Index) recount(ns *namespace, before *corev1.Pod, from string, after *corev1.Pod, to string) {
	if from == to && (to == "" || maps.Equal(before.Labels, after.Labels)) {
		return
	}
	if from != "" {
		ns.groupsOf(before, func(g *group) { x.count(g, from, -1) })
	}
	if to != "" {
		ns.groupsOf(after, func(g *group) { x.count(g, to, 1) })
	}
}

// groupsOf calls yield with every watched group that the pod is behind.
func (ns *namespace) groupsOf(pod *corev1.Pod, yield func(*group)) {
	if len(ns.selecting) > 0 {
		for key, value := range pod.Labels {
			for _, g := range ns.selecting[labelPair{key, value}] {
				if g.members.selects(pod.Labels) {
					yield(g)
				}
			}
		}
	}
	for _, g := range ns.listing {
		if g.lists(pod) {
			yield(g)
		}
	}
}

// SyncNode takes over the node of this name as the store has it. Peers on a node
// that goes are counted again when one of its name comes.
func (x *Index) SyncNode(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before, after := x.nodes[name], read[corev1.Node](x.stores.Nodes, name)
	if after != nil {
		x.nodes[name] = after
	} else {
		delete(x.nodes, name)
	}
	if before != nil && after != nil && maps.Equal(before.Labels, after.Labels) {
		return // a heartbeat, as a rule
	}
	if before == nil && after == nil {
		return
	}
	if len(x.relabeled) >= 2*maxRelabeled {
		x.relabeled = slices.Clone(x.relabeled[maxRelabeled:])
	}
	x.relabeled = append(x.relabeled, name)
	x.relabellings++
	for g := range x.groups {
		if peers := g.placed[name]; peers != 0 {
			g.countOn(before, -peers)
			g.countOn(after, peers)
		}
	}
	if after != nil {
		for key := range after.Labels {
			x.keyUses[key]++
		}
	}
	if before != nil {
		for key := range before.Labels {
			if x.keyUses[key]--; x.keyUses[key] == 0 {
				delete(x.keyUses, key)
			}
		}
	}
}

// SyncService takes over the Service of this name as the store has it.
func (x *Index) SyncService(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ns := x.namespaceOf(namespace)
	defer x.release(ns)
	s, object := ns.services[name], read[corev1.Service](x.stores.Services, namespace+"/"+name)
	if object == nil {
		if s != nil {
			x.unwatch(ns, s)
			delete(ns.services, name)
		}
		return
	}
	if s == nil {
		s = &service{object: &corev1.Service{}}
		ns.services[name] = s
	}
	const consent = names.AllowColocationFromAnnotation
	if object.Annotations[consent] != s.object.Annotations[consent] {
		s.consent, _ = ParseConsent(object.Annotations[consent])
	}
	if isExternal(object) != isExternal(s.object) || !maps.Equal(object.Spec.Selector, s.object.Spec.Selector) {
		// What was counted is no longer right. The next Lookup, if there is one, counts
		// again.
		x.unwatch(ns, s)
	}
	s.object = object
}

// isExternal reports whether the Service is a name for something outside: whatever
// else it says, no pod is behind it.
func isExternal(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeExternalName
}

// SyncEndpointSlice takes over the EndpointSlice of this name as the store has it.
func (x *Index) SyncEndpointSlice(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ns := x.namespaceOf(namespace)
	defer x.release(ns)
	before, after := ns.slices[name], read[discoveryv1.EndpointSlice](x.stores.EndpointSlices, namespace+"/"+name)
	if after != nil {
		ns.slices[name] = after
	} else {
		delete(ns.slices, name)
	}
	// Of a slice that changes, little does as a rule.
	changes := map[listing]int{}
	for _, slice := range [...]struct {
		object *discoveryv1.EndpointSlice
		by     int
	}{{before, -1}, {after, 1}} {
		if slice.object == nil {
			continue
		}
		if s := ns.services[slice.object.Labels[discoveryv1.LabelServiceName]]; s != nil && s.group != nil && s.group.listed {
			for e := range endpointsOf(slice.object) {
				changes[listing{s.group, e}] += slice.by
			}
		}
	}
	for l, by := range changes {
		if by != 0 {
			x.list(ns, l.group, l.endpoint, by)
		}
	}
}

// listing is an endpoint that an EndpointSlice lists for a group.
type listing struct {
	group    *group
	endpoint endpoint
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

// endpointsOf yields the endpoints of the object that can be peers.
func endpointsOf(object *discoveryv1.EndpointSlice) iter.Seq[endpoint] {
	return func(yield func(endpoint) bool) {
		for i := range object.Endpoints {
			if e := endpointOf(object, &object.Endpoints[i]); e != (endpoint{}) && !yield(e) {
				return
			}
		}
	}
}

// endpointOf returns what matters of an endpoint; nothing if it can be no peer.
func endpointOf(object *discoveryv1.EndpointSlice, given *discoveryv1.Endpoint) endpoint {
	if ref := given.TargetRef; ref != nil && ref.Kind == "Pod" {
		// Where a pod is, the pod says. One of another namespace does not count:
		// whoever may write EndpointSlices in one namespace could find out where
		// the pods of every other are.
		switch {
		case ref.Namespace != "" && ref.Namespace != object.Namespace:
			return endpoint{}
		case ref.UID != "":
			return endpoint{podUID: ref.UID}
		}
		return endpoint{podName: ref.Name}
	}
	node, zone := ptr.Deref(given.NodeName, ""), ptr.Deref(given.Zone, "")
	switch {
	case ptr.Deref(given.Conditions.Terminating, false) || node == "" && zone == "":
		return endpoint{}
	case node != "":
		return endpoint{node: node, family: object.AddressType}
	}
	return endpoint{zone: zone, family: object.AddressType}
}
