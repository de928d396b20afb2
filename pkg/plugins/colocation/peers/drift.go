// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Drift returns how far the index is from the truth: how many pods it has otherwise than
// the store, and how many peers it counts otherwise than its own pods are, for Services
// with a selector. While events are on their way it is more than 0 for a moment; one that
// stays is a fault. It holds the lock for a part of the pods, or for one namespace, at a
// time.
func (x *Index) Drift() int {
	drift, matched := 0, 0
	const atOnce = 1024
	for part := range slices.Chunk(x.stores.Pods.List(), atOnce) {
		x.mu.Lock()
		for _, object := range part {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				continue
			}
			if ns := x.namespaces[pod.Namespace]; ns != nil && ns.pods[pod.Name] != nil {
				matched++
				if !sameForPeers(ns.pods[pod.Name].object, pod) {
					drift++
				}
			} else {
				drift++
			}
		}
		x.mu.Unlock()
	}
	x.mu.Lock()
	known, namespaces := 0, slices.Collect(maps.Keys(x.namespaces))
	for _, ns := range x.namespaces {
		known += len(ns.pods)
	}
	x.mu.Unlock()
	drift += max(0, known-matched)
	for _, name := range namespaces {
		x.mu.Lock()
		if ns := x.namespaces[name]; ns != nil {
			drift += ns.miscounted()
		}
		x.mu.Unlock()
	}
	return drift
}

// sameForPeers reports whether two versions of a pod of one name are the same to the index.
func sameForPeers(a, b *corev1.Pod) bool {
	return a == b || a.UID == b.UID && a.Spec.NodeName == b.Spec.NodeName && isTerminal(a) == isTerminal(b) && maps.Equal(a.Labels, b.Labels)
}

// miscounted is how many peers of groups with a selector are counted on other nodes than
// where the pods are.
func (ns *namespace) miscounted() int {
	if len(ns.selecting) == 0 {
		return 0
	}
	placed := map[*group]map[string]int{}
	for _, groups := range ns.selecting {
		for _, g := range groups {
			placed[g] = map[string]int{}
		}
	}
	for _, p := range ns.pods {
		if node := p.node(); node != "" {
			ns.groupsOf(p.object, func(g *group) {
				if placed[g] != nil {
					placed[g][node]++
				}
			})
		}
	}
	wrong := 0
	for g, nodes := range placed {
		for node, peers := range g.placed {
			wrong += max(0, peers-nodes[node])
		}
		for node, peers := range nodes {
			wrong += max(0, peers-g.placed[node])
		}
	}
	return wrong
}
