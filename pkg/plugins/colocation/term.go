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

// term is one Service that a pod is to be near, of a wish, with where its peers were
// when the cycle began. It does not change.
type term struct {
	view *peers.View
	// levels are the topology keys, nearest first.
	levels []levelView
	// weight is that of the wish times that of the Service; 0 if there is no peer,
	// and the term requires something all the same.
	weight int64
	// required is the level within which a peer must be; its key is empty if there
	// is none. The reasons are what the user reads then.
	required        levelView
	noPeer, noLabel string
	// first is whether the pod is behind the Service itself, and no peer is where
	// the required key has a value: the pod is the first of its group, and any node
	// with the key will do.
	first bool
}

// levelView is the peers of a term by the values of one topology key.
type levelView struct {
	key   string
	peers peers.Level
}

// requirement is that a peer of a Service must be within the same value of a
// topology key, with what the index answered when the cycle began. It does not
// change.
type requirement struct {
	// namespace and name are the Service's.
	namespace, name string
	key             string
	// view is nil if there was no Service that let the pod near it.
	view *peers.View
	// first is term.first.
	first bool
}

// satisfiable reports whether there can be a node for a requirement with the key:
// one with the same value as a peer, or, for the first pod of a group, any that has
// the key. A nil view is that of no Service.
func satisfiable(view *peers.View, key string, pod *corev1.Pod) bool {
	return view != nil && (view.Level(key).Len() > 0 || view.IsPeer(pod))
}

// isFirst reports whether the pod is behind the Service, and nobody else behind it
// is where the key has a value. As for required pod affinity (InterPodAffinity), a
// group whose pods require each other can start so. It is decided for each Service
// by itself: a pod that is the first of one group still waits for the other Services
// that it requires.
func isFirst(view *peers.View, key string, pod *corev1.Pod) bool {
	return view != nil && view.Level(key).Len() == 0 && view.IsPeer(pod)
}

// accepts reports whether a node with these labels meets the requirement, with the
// peers of the view.
func (q *requirement) accepts(view *peers.View, first bool, labels map[string]string) bool {
	value, ok := labels[q.key]
	return ok && view != nil && (first || view.Within(q.key, value) > 0)
}

// lookup is what was found of everything that a request names.
type lookup struct {
	// terms are the Services that have a peer, or of which the pod is to be the first.
	terms []term
	// required are all requirements, those too that cannot be met yet.
	required []requirement
	// waits says what has to happen before all of required can be met; empty if
	// nothing has.
	waits []string
	// unknown are the Services that the annotations prefer, and that do not exist or
	// do not let the pod near them, as namespace/name; nobody but the index can tell
	// which.
	unknown []string
	// emptyLevels and emptyRequirements are the fields that name a topology key
	// that no node has.
	emptyLevels, emptyRequirements []string
	// idle are the Services and levels of rules that hold nobody: the administrator's
	// concern, where those of the annotations are the concern of the pod's author.
	idle []string
}

// lookUp finds where the peers of the request are.
func lookUp(index *peers.Index, pod *corev1.Pod, r *request) lookup {
	var l lookup
	for i := range r.wishes {
		w := &r.wishes[i]
		for _, key := range w.topologyKeys {
			switch {
			case index.HasTopologyKey(key):
			case w.source == byAnnotations:
				l.emptyLevels = append(l.emptyLevels, fmt.Sprintf("%q of %s", key, w.source.topologyKeys()))
			default:
				l.idle = append(l.idle, fmt.Sprintf("no node has the label %q of %s", key, w.source.topologyKeys()))
			}
		}
		keys := w.topologyKeys
		if w.requiredTopologyKey != "" {
			if !index.HasTopologyKey(w.requiredTopologyKey) {
				l.emptyRequirements = append(l.emptyRequirements, fmt.Sprintf("%q of %s", w.requiredTopologyKey, w.source.requiredTopologyKey()))
			}
			keys = append(slices.Clip(keys), w.requiredTopologyKey)
		}
		for _, s := range w.services {
			l.add(index, pod, w, s, keys)
		}
	}
	return l
}

func (l *lookup) add(index *peers.Index, pod *corev1.Pod, w *wish, s serviceRef, keys []string) {
	namespace := s.in(pod.Namespace)
	service := namespace + "/" + s.name
	view, ok := index.Lookup(pod.Namespace, namespace, s.name, keys...)
	if w.requiredTopologyKey == "" {
		switch {
		case !ok && w.source == byAnnotations:
			l.unknown = append(l.unknown, service)
		case !ok:
			l.idle = append(l.idle, fmt.Sprintf("no Service %s of %s rules[%d].services lets pods of namespace %s near it", service, Name, w.source.rule, pod.Namespace))
		case view.Total() > 0:
			l.terms = append(l.terms, newTerm(view, w, s))
		}
		return
	}
	key := w.requiredTopologyKey
	q := requirement{namespace: namespace, name: s.name, key: key, view: view, first: isFirst(view, key, pod)}
	l.required = append(l.required, q)
	if !satisfiable(view, key, pod) {
		l.waits = append(l.waits, q.missing(pod.Namespace))
		return
	}
	t := newTerm(view, w, s)
	t.first = q.first
	t.required = levelView{key, view.Level(key)}
	t.noPeer = "node(s) had no pod of Service " + service + " in the same " + key
	t.noLabel = "node(s) had no label " + key + ", within which a pod of Service " + service + " is required"
	l.terms = append(l.terms, t)
}

func newTerm(view *peers.View, w *wish, s serviceRef) term {
	t := term{view: view, weight: w.weight * s.weight}
	if view.Total() == 0 {
		t.weight = 0
	}
	for _, key := range w.topologyKeys {
		t.levels = append(t.levels, levelView{key, view.Level(key)})
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

// scoreScale is the score of a term for a node that has all peers itself.
const scoreScale = 1000

// score rates a node with these labels for the term, 0 to scoreScale.
//
// With n levels, scoreScale is divided into n equal steps. The nearest level that
// the node shares with any peer decides the step: a call that may be answered by
// any peer stays within it. Within the step it counts how near all peers are: the
// share of the peers within each level, averaged over the levels. That is what is
// left of a call that goes to all of them alike. A node that shares no level with
// any peer has 0, every other more.
//
// It allocates nothing.
func (t *term) score(labels map[string]string) int64 {
	if t.weight == 0 {
		return 0
	}
	levels := int64(len(t.levels))
	nearest, within := levels, int64(0)
	for i := range t.levels {
		value, ok := labels[t.levels[i].key]
		if !ok {
			continue
		}
		if n := int64(t.levels[i].peers.Within(value)); n > 0 {
			nearest = min(nearest, int64(i))
			within += n
		}
	}
	if nearest == levels {
		return 0
	}
	step := scoreScale / levels
	// At least 1, so that the step below stays apart; a level may hold more peers
	// than there are only if the same key counts twice, which parsing excludes.
	share := max(1, step*within/(levels*int64(t.view.Total())))
	return step*(levels-nearest-1) + min(step, share)
}
