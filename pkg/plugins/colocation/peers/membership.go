// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// membership says which pods of a namespace are behind a Service. It never
// changes.
type membership struct {
	namespace string
	// selector is the Service's, sorted by key. Without one, the pods are those
	// that EndpointSlices list.
	selector []labelPair
	// byUID and byName count the endpoints that name a pod: by its UID, or, if they
	// give none, by its name.
	byUID, byName counts
}

type labelPair struct{ key, value string }

// has reports whether the pod of the namespace is behind the Service.
func (m *membership) has(name string, uid types.UID, labels map[string]string) bool {
	if len(m.selector) > 0 {
		return m.selects(labels)
	}
	return m.lists(name, uid)
}

// selects is has for a Service with a selector.
func (m *membership) selects(labels map[string]string) bool {
	for _, pair := range m.selector {
		if value, ok := labels[pair.key]; !ok || value != pair.value {
			return false
		}
	}
	return true
}

// lists is has for a Service without one.
func (m *membership) lists(name string, uid types.UID) bool {
	return m.byUID.get(string(uid)) > 0 || m.byName.get(name) > 0
}

func newSelector(selector map[string]string) []labelPair {
	if len(selector) == 0 {
		return nil
	}
	pairs := make([]labelPair, 0, len(selector))
	for key, value := range selector {
		pairs = append(pairs, labelPair{key, value})
	}
	slices.SortFunc(pairs, func(a, b labelPair) int { return cmp.Compare(a.key, b.key) })
	return pairs
}
