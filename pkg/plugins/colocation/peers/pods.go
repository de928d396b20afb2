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
	version version
	ns      *namespace
	facts   podFacts
	// promised is the node of Reserve, until the pod is seen to have one.
	promised string
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
	return p.promised
}

// ApplyPod takes over a change of a pod from old to updated, either nil, as an
// informer tells of it; for a queueing hint there is ApplyPodEvent. It may be told the same change any number of times and changes in any order: what is older
// than what it knows, it ignores. The pod needs a UID.
func (x *Index) ApplyPod(old, updated *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil && (updated == nil || old.UID != updated.UID) {
		x.buryPod(old)
	}
	if updated != nil {
		x.observePod(updated, factsOf(updated))
	}
}

// ApplyPodEvent is ApplyPod for what the scheduler's queue tells a queueing hint.
// There "deleted" is also said of pods that live: one whose binding failed, as it
// was assumed, and one whose nomination changed. A UID that was buried never comes
// back, so a deletion is believed only of a pod that is known to have its node from
// the API server, and in a version not older than the one known: what fails to be
// bound, or is nominated, is older than any bound version. Of other pods the
// informer's own handler tells; until it does, at most a promise counts that
// Unreserve did not take back.
func (x *Index) ApplyPodEvent(old, updated *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil && (updated == nil || old.UID != updated.UID) {
		if p := x.pod(old); p != nil && p.facts.uid == old.UID && p.facts.node != "" && versionOf(old).replaces(p.version) {
			x.buryPod(old)
		}
	}
	if updated != nil {
		x.observePod(updated, factsOf(updated))
	}
}

// Reserve lets the pod count on the node that it was promised, until it is seen to
// have one, or is unreserved or deleted. The node that the object itself may name
// already is ignored. A second call replaces the first.
func (x *Index) Reserve(object *corev1.Pod, node string) {
	facts := factsOf(object)
	// The scheduler reserves for a copy that names the node already; in the API the
	// pod of this version has none.
	facts.node = ""
	x.mu.Lock()
	defer x.mu.Unlock()
	// The news that there is such a pod may still be under way.
	x.observePod(object, facts)
	if p := x.podsByUID[object.UID]; p != nil && p.facts.node == "" {
		before := p.place()
		p.promised = node
		x.recount(p.ns, &p.facts, before, &p.facts, p.place())
	}
}

// Unreserve takes back what Reserve promised. It may be called any number of
// times, and does nothing to a pod that was seen to have a node.
func (x *Index) Unreserve(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.podsByUID[uid]; p != nil {
		before := p.place()
		p.promised = ""
		x.recount(p.ns, &p.facts, before, &p.facts, p.place())
	}
}

// observePod takes over a version of a pod with the facts about it.
func (x *Index) observePod(object *corev1.Pod, facts podFacts) {
	p := x.pod(object)
	if !x.gonePods.admit(object, p.known()) {
		return
	}
	if p != nil && p.facts.uid != facts.uid {
		x.removePod(p)
		p = nil
	}
	if p == nil {
		p = &pod{ns: x.namespaceOf(object.Namespace), facts: podFacts{name: facts.name, uid: facts.uid}}
		p.ns.pods[facts.name] = p
		if facts.uid != "" {
			x.podsByUID[facts.uid] = p
		}
	}
	before, place := p.facts, p.place()
	p.version, p.facts = versionOf(object), facts
	if facts.node != "" {
		p.promised = ""
	}
	x.recount(p.ns, &before, place, &p.facts, p.place())
}

// pod returns the pod of the object's name, or nil.
func (x *Index) pod(object *corev1.Pod) *pod {
	if ns := x.namespaces[object.Namespace]; ns != nil {
		return ns.pods[object.Name]
	}
	return nil
}

func (p *pod) known() *version {
	if p == nil {
		return nil
	}
	return &p.version
}

// buryPod takes note that a pod was deleted.
func (x *Index) buryPod(object *corev1.Pod) {
	p := x.pod(object)
	if x.gonePods.bury(object, p.known()) {
		x.removePod(p)
	}
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
