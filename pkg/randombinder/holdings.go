// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelpers "k8s.io/component-helpers/resource"
)

// holdings count what pods take of nodes. They count nothing, and are always
// empty, unless the fit is FitResources. They are not safe for concurrent use.
type holdings struct {
	counting bool
	// pods is the truth by pod, nodes its sum by node, without nodes that hold
	// nothing.
	pods  map[types.UID]holding
	nodes map[string]corev1.ResourceList
}

// holding is what one pod takes of one node.
type holding struct {
	node     string
	requests corev1.ResourceList
}

func newHoldings(fit Fit) *holdings {
	return &holdings{
		counting: fit == FitResources,
		pods:     map[types.UID]holding{},
		nodes:    map[string]corev1.ResourceList{},
	}
}

// used returns the sum of what the node's pods take; nil for nothing. It belongs
// to the holdings and is valid until the next change.
func (h *holdings) used(node string) corev1.ResourceList { return h.nodes[node] }

// hold counts the requests against the node, in place of what the pod held
// before. It reports whether that was anything else, so that a node may now
// hold less.
func (h *holdings) hold(uid types.UID, node string, requests corev1.ResourceList) bool {
	if !h.counting {
		return false
	}
	old, held := h.pods[uid]
	if held && old.node == node && equality.Semantic.DeepEqual(old.requests, requests) {
		return false
	}
	h.release(uid)
	h.pods[uid] = holding{node: node, requests: requests}
	h.add(node, requests, 1)
	return held
}

// release takes back what the pod holds, and reports whether it held anything.
func (h *holdings) release(uid types.UID) bool {
	old, held := h.pods[uid]
	if !held {
		return false
	}
	delete(h.pods, uid)
	h.add(old.node, old.requests, -1)
	return true
}

// add adds sign times the requests to the node's sum.
func (h *holdings) add(node string, requests corev1.ResourceList, sign int) {
	used := h.nodes[node]
	if used == nil {
		used = corev1.ResourceList{}
		h.nodes[node] = used
	}
	for name, request := range requests {
		sum := used[name]
		if sign > 0 {
			sum.Add(request)
		} else {
			sum.Sub(request)
		}
		used[name] = sum
	}
	for _, sum := range used {
		if !sum.IsZero() {
			return
		}
	}
	// Nodes come and go; their names must not stay for ever.
	delete(h.nodes, node)
}

// requests returns what the pod takes of a node's allocatable resources, itself
// as one of "pods" included: init containers, overhead, pod-level requests and
// a resize under way count as for the kubelet. Nil unless requests count.
func (h *holdings) requests(pod *corev1.Pod) corev1.ResourceList {
	if !h.counting {
		return nil
	}
	requests := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{UseStatusResources: true})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}
