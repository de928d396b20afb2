// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// term is one Service that a pod is to be near and that has a peer: a serviceRef
// of a wish, with where its peers were when the cycle began. It does not change.
type term struct {
	view *peers.View
	// prefer are the levels, nearest first.
	prefer []levelView
	// weight is that of the wish times that of the Service.
	weight int64
	// required is the level within which a peer must be; its key is empty if there
	// is none. The reasons are what the user reads then.
	required        levelView
	noPeer, noLabel string
}

// levelView is the peers of a term by the values of one topology key.
type levelView struct {
	key   string
	peers peers.Level
}

// lookup is what was found of everything that a request names.
type lookup struct {
	// terms are the Services that have a peer.
	terms []term
	// waiting are the Services that have none and might, as namespace/name: those
	// of which the pod is not the first itself. unknown are those of the annotations
	// that do not exist or do not let the pod near them, and nobody but the index can
	// tell which.
	waiting, unknown []string
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
		for _, key := range w.prefer {
			switch {
			case index.HasTopologyKey(key):
			case w.source == byAnnotations:
				l.emptyLevels = append(l.emptyLevels, fmt.Sprintf("%q of %s", key, w.source.prefer()))
			default:
				l.idle = append(l.idle, fmt.Sprintf("no node has the label %q of %s", key, w.source.prefer()))
			}
		}
		keys := w.prefer
		if w.requireWithin != "" {
			if !index.HasTopologyKey(w.requireWithin) {
				l.emptyRequirements = append(l.emptyRequirements, fmt.Sprintf("%q of %s", w.requireWithin, w.source.requireWithin()))
			}
			keys = append(slices.Clip(keys), w.requireWithin)
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
	if !ok {
		if w.source == byAnnotations {
			l.unknown = append(l.unknown, service)
		} else {
			l.idle = append(l.idle, fmt.Sprintf("no Service %s of %s rules[%d].services lets pods of namespace %s near it", service, Name, w.source.rule, pod.Namespace))
		}
		l.waiting = append(l.waiting, service)
		return
	}
	if view.Total() == 0 {
		// A pod that is behind the Service itself would wait for itself.
		if !view.IsPeer(pod) {
			l.waiting = append(l.waiting, service)
		}
		return
	}
	t := term{view: view, weight: w.weight * s.weight}
	for _, key := range w.prefer {
		t.prefer = append(t.prefer, levelView{key, view.Level(key)})
	}
	if w.requireWithin != "" {
		t.required = levelView{w.requireWithin, view.Level(w.requireWithin)}
		t.noPeer = "node(s) had no pod of Service " + service + " in the same " + w.requireWithin
		t.noLabel = "node(s) had no label " + w.requireWithin + ", within which a pod of Service " + service + " is required"
	}
	l.terms = append(l.terms, t)
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
	levels := int64(len(t.prefer))
	nearest, within := levels, int64(0)
	for i := range t.prefer {
		value, ok := labels[t.prefer[i].key]
		if !ok {
			continue
		}
		if n := int64(t.prefer[i].peers.Within(value)); n > 0 {
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
