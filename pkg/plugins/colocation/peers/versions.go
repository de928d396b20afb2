// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// version tells the versions and incarnations of an object of one name apart.
type version struct {
	uid      types.UID
	resource string
}

func versionOf(object metav1.Object) version {
	return version{uid: object.GetUID(), resource: object.GetResourceVersion()}
}

// replaces reports whether v is not older than the version known of the same name,
// be it the same incarnation or another. The same version twice says the same
// twice, from an API server; a simulation may change an object and not its version.
// Versions that cannot be compared do not come from an API server either; there,
// what is told last is the newest.
func (v version) replaces(known version) bool {
	order, err := resourceversion.CompareResourceVersion(v.resource, known.resource)
	return err != nil || order >= 0
}

// ends reports whether the deletion of v, as it was when it was last seen, leaves
// nothing of the known version of the same name. The deletion of an older
// incarnation leaves a newer one alone; that of a newer one, of which nothing was
// known, ends the older ones too.
func (v version) ends(known version) bool {
	if v.uid == known.uid {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(v.resource, known.resource)
	return err == nil && order > 0
}

// maxTombstones bounds the memory of tombstones, to about a megabyte each.
const maxTombstones = 8192

// objectName is the name of an object; of a node, without a namespace.
type objectName struct{ namespace, name string }

func nameOf(object metav1.Object) objectName {
	return objectName{object.GetNamespace(), object.GetName()}
}

// tombstones remembers the deletions of one kind of object, so that older news
// that come late do not bring back what is gone:
//
//	absent ── admit ──> known ── bury, or admit of a later incarnation ──> buried
//	                     │ ▲                                                 │
//	                     └─┘ admit of a later version     admit, later UID ──┘──> known
//
// What the index believes of a name depends on what it was told and not on the
// order. Assumptions: resource versions of a kind grow with every write (the API
// server's contract since they became comparable), and a UID never comes again.
//
// Only so many deletions are kept. Should one source of events ever be behind
// another by more of them, an object can be back until that source comes to the
// deletion.
type tombstones struct {
	last map[objectName]version
	// ring is the keys of last by age; oldest is where the next goes once the ring
	// is full.
	ring   []objectName
	oldest int
}

// admit decides what becomes of news of an object. known is the version that the
// index has under the same name, nil if it has none. If the news are accepted, and
// tell of another incarnation than known, that one is over.
func (t *tombstones) admit(object metav1.Object, known *version) (accepted bool) {
	news := versionOf(object)
	if known != nil {
		return news.replaces(*known)
	}
	buried, ok := t.last[nameOf(object)]
	return !ok || (news.uid != buried.uid || news.uid == "") && news.replaces(buried)
}

// bury takes note of a deletion, and reports whether it ends what the index has
// under the same name.
func (t *tombstones) bury(object metav1.Object, known *version) bool {
	gone := versionOf(object)
	if known == nil {
		t.put(nameOf(object), gone)
		return false
	}
	if !gone.ends(*known) {
		return false
	}
	t.put(nameOf(object), gone)
	return true
}

func (t *tombstones) put(name objectName, gone version) {
	if buried, ok := t.last[name]; ok {
		if gone.replaces(buried) {
			t.last[name] = gone
		}
		return
	}
	if t.last == nil {
		t.last = map[objectName]version{}
	}
	t.last[name] = gone
	if len(t.ring) < maxTombstones {
		t.ring = append(t.ring, name)
		return
	}
	delete(t.last, t.ring[t.oldest])
	t.ring[t.oldest] = name
	t.oldest = (t.oldest + 1) % len(t.ring)
}
