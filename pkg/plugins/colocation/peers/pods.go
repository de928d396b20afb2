// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is what the index knows of a pod.
type pod struct {
	ns    *namespace
	facts podFacts
	// reserved is the node of Reserve, until the pod is seen to have one.
	reserved string
}

// podFacts is what matters of a version of a pod. labels is the map of the object
// that it was read from, which nobody changes.
type podFacts struct {
	name   string
	uid    types.UID
	labels map[string]string
	node   string
	gone   bool
}

func factsOf(object *corev1.Pod) podFacts {
	return podFacts{
		name:   object.Name,
		uid:    object.UID,
		labels: object.Labels,
		node:   object.Spec.NodeName,
		gone:   isGone(object),
	}
}

// isGone reports whether the pod is terminating or has terminated: it attracts
// nobody any more.
func isGone(object *corev1.Pod) bool {
	return object.DeletionTimestamp != nil ||
		object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
}

// place returns the node where the pod counts; empty if it counts nowhere.
func (p *pod) place() string {
	switch {
	case p.facts.gone:
		return ""
	case p.facts.node != "":
		return p.facts.node
	}
	return p.reserved
}

// SyncPod takes over the pod of this name as the store has it.
func (x *Index) SyncPod(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.syncPod(namespace, name)
}

// syncPod is SyncPod while mu is held. It returns the pod, or nil.
func (x *Index) syncPod(namespace, name string) *pod {
	var p *pod
	if ns := x.namespaces[namespace]; ns != nil {
		p = ns.pods[name]
	}
	object := x.store.Pod(namespace, name)
	if p != nil && (object == nil || p.facts.uid != object.UID) {
		x.removePod(p)
		p = nil
	}
	if object == nil {
		return nil
	}
	if p == nil {
		p = &pod{ns: x.namespaceOf(namespace), facts: podFacts{name: object.Name, uid: object.UID}}
		p.ns.pods[name] = p
		if object.UID != "" {
			x.podsByUID[object.UID] = p
		}
	}
	before, place := p.facts, p.place()
	p.facts = factsOf(object)
	if p.facts.node != "" {
		p.reserved = ""
	}
	x.recount(p.ns, &before, place, &p.facts, p.place())
	return p
}

// Reserve lets the pod count on the node that it was given, until it is seen to
// have one, or is unreserved or deleted. A second call replaces the first. A pod
// that the store does not have is gone: it counts nowhere.
func (x *Index) Reserve(object *corev1.Pod, node string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.syncPod(object.Namespace, object.Name); p != nil && p.facts.uid == object.UID && p.facts.node == "" {
		before := p.place()
		p.reserved = node
		x.recount(p.ns, &p.facts, before, &p.facts, p.place())
	}
}

// Unreserve takes the reservation of a pod back, if there is one and the pod was
// not seen to have a node.
func (x *Index) Unreserve(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.podsByUID[uid]; p != nil {
		before := p.place()
		p.reserved = ""
		x.recount(p.ns, &p.facts, before, &p.facts, p.place())
	}
}

// PlaceOf returns the node where a pod counts at this moment, whichever Services
// it is behind; empty for one that counts nowhere.
func (x *Index) PlaceOf(uid types.UID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.podsByUID[uid]; p != nil {
		return p.place()
	}
	return ""
}

func (x *Index) removePod(p *pod) {
	x.recount(p.ns, &p.facts, p.place(), &p.facts, "")
	delete(p.ns.pods, p.facts.name)
	delete(x.podsByUID, p.facts.uid)
	x.release(p.ns)
}

// recount moves a pod from where and what it was to where and what it is.
func (x *Index) recount(ns *namespace, before *podFacts, from string, after *podFacts, to string) {
	if from == to && (to == "" || maps.Equal(before.labels, after.labels)) {
		return
	}
	if from != "" {
		ns.groupsOf(before, func(g *group) { x.count(g, from, -1) })
	}
	if to != "" {
		ns.groupsOf(after, func(g *group) { x.count(g, to, 1) })
	}
}
