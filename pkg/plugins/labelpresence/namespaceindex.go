// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// namespaceIndex knows the facts about every namespace. It is what PreFilter
// reads.
//
// It is fed from two watches that run independently of each other: the plugin's
// own informer, and the one whose events wake pods. Each may be ahead of the
// other, and a pod must not be woken by an event that the index has not seen, or
// it is refused again and then sleeps for minutes. So whoever learns something
// first says so, in any order, and any number of times:
//
//	absent ── observe ──> known (uid, version) ── forget, same uid ──> absent
//	                        │  ▲
//	                        └──┘ observe, higher version
//
// Assumptions: resource versions of namespaces grow with every write (the API
// server's contract since they became comparable), a uid never comes back once
// it was deleted, and the informer delivers its watch in order.
type namespaceIndex struct {
	factsOf func(labels map[string]string) namespaceFacts

	mu sync.RWMutex
	// entries by namespace name; the next two fields as well under mu.
	entries map[string]namespaceEntry
	// delivered is the highest version that the informer has delivered.
	delivered string
}

type namespaceEntry struct {
	uid     types.UID
	version string
	facts   namespaceFacts
}

func newNamespaceIndex(factsOf func(labels map[string]string) namespaceFacts) *namespaceIndex {
	return &namespaceIndex{factsOf: factsOf, entries: map[string]namespaceEntry{}}
}

// get returns the facts about a namespace, and whether it is known.
func (x *namespaceIndex) get(name string) (namespaceFacts, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	entry, known := x.entries[name]
	return entry.facts, known
}

// apply takes over a change that a queueing hint was told of: from old to new,
// either nil. It is idempotent, and a change that is not news is ignored.
func (x *namespaceIndex) apply(old, updated metav1.Object) {
	x.take(old, updated, false)
}

// applyDelivered is apply for a change that the plugin's own informer delivered.
func (x *namespaceIndex) applyDelivered(old, updated metav1.Object) {
	x.take(old, updated, true)
}

func (x *namespaceIndex) take(old, updated metav1.Object, delivered bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case updated != nil:
		x.observe(updated, delivered)
		if delivered {
			x.advance(updated.GetResourceVersion())
		}
	case old != nil:
		x.forget(old)
		if delivered {
			x.advance(old.GetResourceVersion())
		}
	}
}

// observe is called with mu held.
func (x *namespaceIndex) observe(namespace metav1.Object, delivered bool) {
	name, version := namespace.GetName(), namespace.GetResourceVersion()
	if entry, known := x.entries[name]; known {
		if !isNewer(version, entry.version) {
			return
		}
	} else if !delivered && x.delivered != "" && !isNewer(version, x.delivered) {
		// The informer is past this version and the namespace is not there: it
		// was deleted since. A late hint must not bring it back.
		return
	}
	x.entries[name] = namespaceEntry{uid: namespace.GetUID(), version: version, facts: x.factsOf(namespace.GetLabels())}
}

// forget is called with mu held. What is told of an older incarnation of the
// name leaves a newer one alone.
func (x *namespaceIndex) forget(namespace metav1.Object) {
	entry, known := x.entries[namespace.GetName()]
	if !known {
		return
	}
	if entry.uid == namespace.GetUID() || isNewer(namespace.GetResourceVersion(), entry.version) {
		delete(x.entries, namespace.GetName())
	}
}

// advance is called with mu held.
func (x *namespaceIndex) advance(version string) {
	if x.delivered == "" || isNewer(version, x.delivered) {
		x.delivered = version
	}
}

// isNewer reports whether version a is higher than b. Versions that cannot be
// compared do not come from an API server (but from a simulation); there, what
// is told last is taken for the newest.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
