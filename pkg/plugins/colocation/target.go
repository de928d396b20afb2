// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// target is one Service of a term, with where its peers were when the cycle began. It
// does not change.
type target struct {
	// service is the Service, as namespace/name.
	service string
	view    *peers.View
	// levels are the topology keys, nearest first.
	levels []levelPeers
	// weight is that of the term times that of the Service; 0 if there is no peer,
	// and something is required all the same.
	weight int64
	// required is the level within which a peer must be; its key is empty if there
	// is none. The reasons are what the user reads then.
	required        levelPeers
	noPeer, noLabel string
	// first is requirement.first.
	first bool
}

// levelPeers is the peers of a target by the values of one topology key.
type levelPeers struct {
	key   string
	peers peers.Level
}

// requirement is that a peer of a Service must be within the same value of a
// topology key, with what the index answered at one moment. It does not change.
type requirement struct {
	// namespace and name are the Service's.
	namespace, name string
	key             string
	// view is nil if there was no Service that let the pod near it.
	view *peers.View
	// first is whether the pod is behind the Service, and no other pod behind it is
	// where the key has a value: any node with the key will do. As for required pod
	// affinity (InterPodAffinity), a group whose pods require each other can start so.
	// It is decided for each Service by itself: a pod that is the first of one group
	// still waits for the other Services that it requires.
	first bool
}

// newRequirement returns what the view says for the pod; a nil view is that of no
// Service.
func newRequirement(view *peers.View, namespace, name, key string, pod *corev1.Pod) requirement {
	return requirement{
		namespace: namespace, name: name, key: key, view: view,
		first: view != nil && view.Level(key).Len() == 0 && view.IsPeer(pod),
	}
}

// satisfiable reports whether there can be a node for it: one with the same value as
// a peer, or, for the first pod of a group, any that has the key.
func (q *requirement) satisfiable() bool {
	return q.first || q.view != nil && q.view.Level(q.key).Len() > 0
}

// holds reports whether a peer is within the value.
func (q *requirement) holds(value string) bool {
	return q.view != nil && q.view.Within(q.key, value) > 0
}

// accepts reports whether a node with these labels meets it.
func (q *requirement) accepts(labels map[string]string) bool {
	value, ok := labels[q.key]
	return ok && (q.first || q.holds(value))
}

// lookup is what was found of everything that a request names.
type lookup struct {
	// targets are the Services that have a peer, or of which the pod is to be the first.
	targets []target
	// required are all requirements, those too that cannot be met yet.
	required []requirement
	// waits says what has to happen before all of required can be met; empty if
	// nothing has.
	waits []string
	// unknown are the Services that the annotations prefer, and that do not exist or
	// do not let the pod near them, as namespace/name; only the index knows
	// which.
	unknown []string
	// emptyLevels and emptyRequirements are the fields that name a topology key
	// that no node has.
	emptyLevels, emptyRequirements []string
	// idle are the Services and levels of rules that have no effect: the administrator's
	// concern, where those of the annotations are the concern of the pod's author.
	idle []string
}

// lookUp finds where the peers of the request are.
func lookUp(index *peers.Index, pod *corev1.Pod, r *request) lookup {
	var l lookup
	for i := range r.terms {
		t := &r.terms[i]
		for _, key := range t.topologyKeys {
			switch {
			case index.HasTopologyKey(key):
			case t.rule == byAnnotations:
				l.emptyLevels = append(l.emptyLevels, fmt.Sprintf("%q of %s", key, t.topologyKeysField()))
			default:
				l.idle = append(l.idle, fmt.Sprintf("no node has the label %q of %s", key, t.topologyKeysField()))
			}
		}
		keys := t.topologyKeys
		if t.requiredTopologyKey != "" {
			if !index.HasTopologyKey(t.requiredTopologyKey) {
				l.emptyRequirements = append(l.emptyRequirements, fmt.Sprintf("%q of %s", t.requiredTopologyKey, t.requiredTopologyKeyField()))
			}
			keys = append(slices.Clip(keys), t.requiredTopologyKey)
		}
		for _, s := range t.services {
			l.add(index, pod, t, s, keys)
		}
	}
	return l
}

func (l *lookup) add(index *peers.Index, pod *corev1.Pod, t *term, s serviceRef, keys []string) {
	namespace := s.in(pod.Namespace)
	service := namespace + "/" + s.name
	view, ok := index.Lookup(pod.Namespace, namespace, s.name, keys...)
	key := t.requiredTopologyKey
	if key == "" {
		switch {
		case !ok && t.rule == byAnnotations:
			l.unknown = append(l.unknown, service)
		case !ok:
			l.idle = append(l.idle, fmt.Sprintf("no Service %s of %s rules[%d].services lets pods of namespace %s near it", service, Name, t.rule, pod.Namespace))
		case view.Total() > 0:
			l.targets = append(l.targets, newTarget(service, view, t, s))
		}
		return
	}
	q := newRequirement(view, namespace, s.name, key, pod)
	l.required = append(l.required, q)
	if !q.satisfiable() {
		l.waits = append(l.waits, q.missing(pod.Namespace))
		return
	}
	found := newTarget(service, view, t, s)
	found.first = q.first
	found.required = levelPeers{key, view.Level(key)}
	found.noPeer = "node(s) had no pod of Service " + service + " in the same " + key
	found.noLabel = "node(s) had no label " + key + ", the topology key that is required for Service " + service
	l.targets = append(l.targets, found)
}

func newTarget(service string, view *peers.View, from *term, s serviceRef) target {
	t := target{service: service, view: view, weight: from.weight * s.weight}
	if view.Total() == 0 {
		t.weight = 0
	}
	for _, key := range from.topologyKeys {
		t.levels = append(t.levels, levelPeers{key, view.Level(key)})
	}
	return t
}

// missing says what a pod of a namespace waits for. It is the same of another
// namespace's Service that does not exist and of one that does not let the pod near
// it.
func (q *requirement) missing(podNamespace string) string {
	service := q.namespace + "/" + q.name
	switch {
	case q.view == nil && q.namespace == podNamespace:
		return "Service " + service + " does not exist"
	case q.view == nil:
		return fmt.Sprintf("no Service %s lets pods of namespace %s near it (check the name, or ask its owner for the annotation %s)",
			service, podNamespace, names.AllowColocationFromAnnotation)
	case q.view.Total() > 0:
		return "Service " + service + " has pods, and none of them is on a node with the label " + q.key
	}
	return "Service " + service + " exists, and none of its pods has a node yet"
}
