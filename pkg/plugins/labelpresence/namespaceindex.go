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
// other, and a pod must not be activated by an event that the index has not seen, or
// it is rejected again and then sleeps for minutes. So each of the two passes on what it
// learns, in any order, and any number of times:
//
//	absent ── observe ──> known (uid, version) ── forget, same uid ──> absent
//	                        │  ▲
//	                        └──┘ observe: a hint a higher version, the informer any
//
// What the informer delivers is the truth, also where that is older than what it has
// delivered before: etcd was restored from a snapshot, and versions began again. It only
// has to catch up where a hint was ahead of it.
//
// Assumptions: but for a restore, resource versions of namespaces grow with every write (the
// API server's contract since they became comparable), and the informer delivers its watch
// in order.
type namespaceIndex struct {
	factsOf func(labels map[string]string) namespaceFacts

	mu sync.RWMutex
	// entries by namespace name; the next two fields as well under mu.
	entries map[string]namespaceEntry
	// delivered is the highest version that the informer has delivered, of those since it
	// went back last, and lost the highest that was known then: a hint about no higher one
	// may be of what the restore has undone.
	delivered, lost string
}

type namespaceEntry struct {
	uid     types.UID
	version string
	facts   namespaceFacts
	// hinted is whether a hint told it, and the informer has not confirmed it yet.
	hinted bool
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
	case updated != nil && delivered:
		x.observeDelivered(old, updated)
	case updated != nil:
		x.observeHinted(updated)
	case old != nil:
		x.forget(old)
		if delivered {
			x.advance(old.GetResourceVersion())
		}
	}
}

// observeHinted is called with mu held.
func (x *namespaceIndex) observeHinted(namespace metav1.Object) {
	version := namespace.GetResourceVersion()
	if x.lost != "" && !isNewer(version, x.lost) {
		return // what the informer delivers is the truth
	}
	if entry, known := x.entries[namespace.GetName()]; known {
		if !isNewer(version, entry.version) {
			return
		}
	} else if x.delivered != "" && !isNewer(version, x.delivered) {
		// The informer is past this version and the namespace is not there: it
		// was deleted since. A late hint must not bring it back.
		return
	}
	x.set(namespace, true)
}

// observeDelivered is called with mu held.
func (x *namespaceIndex) observeDelivered(old, namespace metav1.Object) {
	version, last := namespace.GetResourceVersion(), x.delivered
	if old != nil {
		last = old.GetResourceVersion()
	}
	advances := last == "" || isNewer(version, last)
	if entry := x.entries[namespace.GetName()]; !advances || !entry.hinted || isNewer(version, entry.version) || version == entry.version {
		x.set(namespace, false)
	} // else the informer is on its way to what a hint told
	if old != nil && !advances && version != last {
		x.goBack(last)
		x.delivered = version
		return
	}
	x.advance(version)
}

// goBack forgets how far hints were ahead of the informer, which has delivered an older
// version than last. It is called with mu held.
func (x *namespaceIndex) goBack(last string) {
	for _, version := range []string{last, x.delivered} {
		if x.lost == "" || isNewer(version, x.lost) {
			x.lost = version
		}
	}
	for name, entry := range x.entries {
		if isNewer(entry.version, x.lost) {
			x.lost = entry.version
		}
		entry.hinted = false
		x.entries[name] = entry
	}
}

// set is called with mu held.
func (x *namespaceIndex) set(namespace metav1.Object, hinted bool) {
	x.entries[namespace.GetName()] = namespaceEntry{
		uid: namespace.GetUID(), version: namespace.GetResourceVersion(), facts: x.factsOf(namespace.GetLabels()), hinted: hinted,
	}
}

// forget is called with mu held. An event about an older namespace of the same name
// does not affect the newer one.
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
// compared do not come from an API server (but from a simulation); there, the
// version that was delivered last counts as the newest.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
