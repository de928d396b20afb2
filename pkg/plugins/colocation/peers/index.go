// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Index knows where the pods behind every Service are. The zero value is not
// usable: see New. All methods may be called from any goroutine.
type Index struct {
	store Store

	mu sync.Mutex
	// All that follows is guarded by mu.

	namespaces map[string]*namespace
	// podsByUID are the pods that have a UID.
	podsByUID map[types.UID]*pod
	nodes     map[string]*node
	// keyUses counts, by label key, the nodes that carry the key.
	keyUses map[string]int
	// groups are the watched ones of all namespaces.
	groups map[*group]struct{}

	// clock counts the calls of Lookup; it orders the levels of a group by use.
	clock uint64
}

// New returns an empty index of what the store has.
func New(store Store) *Index {
	return &Index{
		store:      store,
		namespaces: map[string]*namespace{},
		podsByUID:  map[types.UID]*pod{},
		nodes:      map[string]*node{},
		keyUses:    map[string]int{},
		groups:     map[*group]struct{}{},
	}
}

// Lookup returns where the peers behind a Service are at this moment. A View does
// not change afterwards: what is read from it during a scheduling cycle fits
// together, whatever happens meanwhile.
//
// It returns nil and false for a Service that does not exist, and for one that
// does not let pods of requesterNamespace near it: one of another namespace
// without names.AllowColocationFromAnnotation that names requesterNamespace or
// "*". The caller cannot tell the two apart.
//
// topologyKeys are the node label keys that View.Level and View.Within will be
// asked for, in any order; more than MaxTopologyKeys cost a pass over the nodes
// with peers in every call, so a caller bounds what a pod may name.
//
// The first call for a Service looks at every pod of its namespace, and the first
// with a topology key at every node with peers; from then on both are kept up to
// date by events, and the cost depends on the number of topology keys alone.
func (x *Index) Lookup(requesterNamespace, serviceNamespace, name string, topologyKeys ...string) (*View, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.allowed(requesterNamespace, serviceNamespace, name)
	if s == nil {
		return nil, false
	}
	if s.group == nil {
		s.group = x.watch(x.namespaces[serviceNamespace], s)
	}
	x.clock++
	return s.group.viewOf(x, topologyKeys), true
}

// NodeLabel returns a label of a node, and whether the node exists and has it.
func (x *Index) NodeLabel(node, key string) (string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.nodes[node]
	if n == nil {
		return "", false
	}
	value, ok := n.labels[key]
	return value, ok
}

// HasTopologyKey reports whether any node carries a label with the key. A level
// whose key no node has holds nobody: most likely the key is misspelt.
func (x *Index) HasTopologyKey(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.keyUses[key] > 0
}

// namespace is what the index knows of one namespace. One without pods, Services
// and EndpointSlices is dropped.
type namespace struct {
	name string
	// pods, services and slices by name; slices also by the Service that they name.
	pods     map[string]*pod
	services map[string]*service
	slices   map[string]*slice
	slicesOf map[string]map[string]*slice
	// selecting are the watched groups that have a selector, each under one pair of
	// it, so that a pod's labels lead to the groups that may select the pod.
	selecting map[labelPair][]*group
	// listing are the watched groups that go by EndpointSlices.
	listing []*group
}

// namespaceOf returns the namespace, made if it is missing.
func (x *Index) namespaceOf(name string) *namespace {
	ns := x.namespaces[name]
	if ns == nil {
		ns = &namespace{
			name:      name,
			pods:      map[string]*pod{},
			services:  map[string]*service{},
			slices:    map[string]*slice{},
			slicesOf:  map[string]map[string]*slice{},
			selecting: map[labelPair][]*group{},
		}
		x.namespaces[name] = ns
	}
	return ns
}

// release drops the namespace if nothing is left in it.
func (x *Index) release(ns *namespace) {
	if len(ns.pods) == 0 && len(ns.services) == 0 && len(ns.slices) == 0 {
		delete(x.namespaces, ns.name)
	}
}

// groupsOf calls yield with every watched group that counts the pod with these
// facts among its members. It stops for nothing.
func (ns *namespace) groupsOf(facts *podFacts, yield func(*group)) {
	if len(ns.selecting) > 0 {
		for key, value := range facts.labels {
			for _, g := range ns.selecting[labelPair{key, value}] {
				if g.members.selects(facts.labels) {
					yield(g)
				}
			}
		}
	}
	for _, g := range ns.listing {
		if g.members.lists(facts.name, facts.uid) {
			yield(g)
		}
	}
}
