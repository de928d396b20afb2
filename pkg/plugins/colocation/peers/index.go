// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// Stores are those of the informers, from which the index reads while it is locked.
// Nobody changes the objects that are in them.
//
// An informer changes its store before it tells any handler, so a store is never
// behind the event that a caller passes on.
type Stores struct {
	Pods, Nodes, Services, EndpointSlices cache.Store
}

// read returns the object of a key, namespace/name or name, as the store has it; nil if
// there is none.
func read[T any](store cache.Store, key string) *T {
	found, _, _ := store.GetByKey(key)
	object, _ := found.(*T)
	return object
}

// Index knows where the pods behind every Service are. The zero value is not
// usable: see New. All methods may be called from any goroutine.
type Index struct {
	stores Stores

	mu sync.Mutex
	// All that follows is guarded by mu.

	namespaces map[string]*namespace
	// podsByUID are the pods that have a UID.
	podsByUID map[types.UID]*pod
	nodes     map[string]*corev1.Node
	// keyUses counts, by label key, the nodes that carry the key.
	keyUses map[string]int
	// groups are the watched ones of all namespaces.
	groups map[*group]struct{}

	// clock counts the calls of Lookup; it orders the levels of a group by use.
	clock uint64
	// relabeled are the last of all nodes that came, went or got other labels, by
	// name, and relabellings is how many there have been.
	relabeled    []string
	relabellings uint64
}

// maxRelabeled is how many of the nodes that were relabeled the index remembers.
const maxRelabeled = 4096

// New returns an empty index of what the stores have.
func New(stores Stores) *Index {
	return &Index{
		stores:     stores,
		namespaces: map[string]*namespace{},
		podsByUID:  map[types.UID]*pod{},
		nodes:      map[string]*corev1.Node{},
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
	ns := x.namespaces[serviceNamespace]
	if ns == nil {
		return nil, false
	}
	s := ns.services[name]
	if s == nil || requesterNamespace != serviceNamespace && !s.consent.To(requesterNamespace) {
		return nil, false
	}
	if s.group == nil {
		s.group = x.watch(ns, s.object)
	}
	x.clock++
	return s.group.viewOf(x, topologyKeys), true
}

// NodeLabel returns a label of a node, and whether the node exists and has it.
func (x *Index) NodeLabel(node, key string) (string, bool) {
	labels, _ := x.NodeLabels(node)
	value, ok := labels[key]
	return value, ok
}

// Relabeled returns the names of the nodes that came, went or got other labels since
// an earlier call, in order, and what tells the next call of this one; 0 tells the
// first. It returns false where the index does not remember all of them.
func (x *Index) Relabeled(since uint64) (nodes []string, now uint64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	missed := x.relabellings - since
	if missed > uint64(len(x.relabeled)) {
		return nil, x.relabellings, false
	}
	return slices.Clone(x.relabeled[uint64(len(x.relabeled))-missed:]), x.relabellings, true
}

// NodeLabels returns the labels of a node, which must not be changed, and whether the
// node exists.
func (x *Index) NodeLabels(node string) (map[string]string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.nodes[node]
	if n == nil {
		return nil, false
	}
	return n.Labels, true
}

// HasTopologyKey reports whether any node carries a label with the key. A level
// whose key no node has is empty: most likely the key is misspelled.
func (x *Index) HasTopologyKey(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.keyUses[key] > 0
}

// ServicesOf returns the names of the Services of the pod's namespace that it is behind, of
// those that Lookup was called for since what is behind them changed last.
func (x *Index) ServicesOf(pod *corev1.Pod) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	if ns := x.namespaces[pod.Namespace]; ns != nil {
		ns.groupsOf(pod, func(g *group) { names = append(names, g.service) })
	}
	return names
}

// NodeOf returns the node where a pod counts at this moment, whichever Services
// it is behind; empty for one that counts nowhere.
func (x *Index) NodeOf(uid types.UID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.podsByUID[uid]; p != nil {
		return p.node()
	}
	return ""
}

// namespace is what the index knows of one namespace. One without pods, Services
// and EndpointSlices is dropped.
type namespace struct {
	name     string
	pods     map[string]*pod
	services map[string]*service
	slices   map[string]*discoveryv1.EndpointSlice
	// selecting are the watched groups that have a selector, each under one pair of
	// it, so that a pod's labels lead to the groups that may select the pod.
	selecting map[labelPair][]*group
	// listing are the watched groups that go by EndpointSlices.
	listing []*group
}

// service is a Service as the store had it.
type service struct {
	object *corev1.Service
	// consent is what its annotation says.
	consent Consent
	// group counts the peers; nil until the first Lookup, and again from when what
	// is behind the Service changed until the next.
	group *group
}

// pod is a pod as the store had it.
type pod struct {
	ns *namespace
	// key is the store's.
	key    string
	object *corev1.Pod
	// reserved is the node of Reserve, until the pod is seen to have one.
	reserved string
}

// node returns the name of the node where the pod counts; empty if it counts nowhere.
func (p *pod) node() string {
	switch {
	case isTerminal(p.object):
		return ""
	case p.object.Spec.NodeName != "":
		return p.object.Spec.NodeName
	}
	return p.reserved
}

// isTerminal reports whether the pod is terminating or has terminated: it no longer
// counts as a peer.
func isTerminal(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || podphase.IsTerminated(pod)
}

// namespaceOf returns the namespace, made if it is missing: see release.
func (x *Index) namespaceOf(name string) *namespace {
	ns := x.namespaces[name]
	if ns == nil {
		ns = &namespace{
			name:      name,
			pods:      map[string]*pod{},
			services:  map[string]*service{},
			slices:    map[string]*discoveryv1.EndpointSlice{},
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
