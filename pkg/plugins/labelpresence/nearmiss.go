// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

var (
	_ shortfall.Plugin = &LabelPresence{}
	_ shortfall.Viewer = &LabelPresence{}
)

// NearMiss returns how far nodes are for a pod to which rules or tenancy apply; nil for
// others. A node that tenancy keeps from the pod is hidden: who is no tenant of it is not
// told its name.
func (pl *LabelPresence) NearMiss(pod *corev1.Pod) shortfall.Measure {
	c, known := pl.constraintsOf(pod)
	if !known || c.none() {
		return nil
	}
	return &nearMiss{c}
}

// View returns the nodes that tenancy does not keep from the pod; nil where tenancy does not
// apply. Of a namespace that is not known no node is.
func (pl *LabelPresence) View(pod *corev1.Pod) *shortfall.View {
	if !pl.policy.tenancy.appliesTo(pod.Namespace) {
		return nil
	}
	facts, known := pl.namespaces.get(pod.Namespace)
	if !known {
		return &shortfall.View{Sees: func(*corev1.Node) bool { return false }, Empty: unknownNamespaceReason(pod.Namespace)}
	}
	t := pl.policy.tenancy
	return &shortfall.View{Sees: t.visibleTo(facts.tenant), Empty: t.noNode(facts.tenant)}
}

// nearMiss measures nodes for one pod.
type nearMiss struct {
	constraints
}

// Distance implements shortfall.Measure.
func (m *nearMiss) Distance(nodeInfo fwk.NodeInfo) (rank int, gap float64) {
	node := nodeInfo.Node()
	if m.tenancy != nil && m.tenancy.reject(node, m.owner) != nil {
		return shortfall.Hidden, 0
	}
	m.broken(node, func(string, bool) { rank, gap = shortfall.Other, gap+1 })
	return rank, gap
}

// Describe implements shortfall.Measure.
func (m *nearMiss) Describe(nodeInfo fwk.NodeInfo) string {
	var broken []string
	m.broken(nodeInfo.Node(), func(key string, wanted bool) {
		verb := "has"
		if wanted {
			verb = "lacks"
		}
		broken = append(broken, fmt.Sprintf("%s label %q", verb, key))
	})
	if len(broken) == 0 {
		return ""
	}
	return "which " + strings.Join(broken, " and ")
}

// broken calls do with each label of a rule that the node breaks, and whether the rule
// wants it.
func (m *nearMiss) broken(node *corev1.Node, do func(key string, wanted bool)) {
	for _, r := range m.rules {
		for i := range r.labels {
			if _, present := node.Labels[r.labels[i].key]; present != r.presence {
				do(r.labels[i].key, r.presence)
			}
		}
	}
}
