// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkable reports whether a spread constraint is one of those that skews checks:
// the domains are the values of one label on the nodes that nodeSelector allows.
func checkable(constraint *corev1.TopologySpreadConstraint) bool {
	return constraint.MinDomains == nil && len(constraint.MatchLabelKeys) == 0 &&
		(constraint.NodeAffinityPolicy == nil || *constraint.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) &&
		(constraint.NodeTaintsPolicy == nil || *constraint.NodeTaintsPolicy == corev1.NodeInclusionPolicyIgnore)
}

// skews returns every spread constraint that a placed pod's node breaks. A node
// that was right when the pod came stays so while pods only come.
func (j *judge) skews(pod *corev1.Pod, node *corev1.Node) []string {
	var violations []string
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule || !checkable(constraint) {
			continue
		}
		own, has := node.Labels[constraint.TopologyKey]
		if !has {
			violations = append(violations, fmt.Sprintf("node %q lacks label %q, over which the pod is to be spread", node.Name, constraint.TopologyKey))
			continue
		}
		counts, err := j.spread(pod, constraint)
		if err != nil {
			violations = append(violations, fmt.Sprintf("spec.topologySpreadConstraints[%d].labelSelector: %v", i, err))
			continue
		}
		least := slices.Min(slices.Collect(maps.Values(counts)))
		if skew := counts[own] - least; skew > int(constraint.MaxSkew) {
			violations = append(violations, fmt.Sprintf("%s=%s has %d pods like it and another value %d: the skew is %d, at most %d is allowed",
				constraint.TopologyKey, own, counts[own], least, skew, constraint.MaxSkew))
		}
	}
	return violations
}

// spread counts the pods that a constraint is about, by domain. The domain of the
// pod's own node is always there.
func (j *judge) spread(pod *corev1.Pod, constraint *corev1.TopologySpreadConstraint) (map[string]int, error) {
	selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	domainOf := map[string]string{}
	for i := range j.cluster.Nodes {
		node := &j.cluster.Nodes[i]
		domain, has := node.Labels[constraint.TopologyKey]
		allowed := labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels))
		if has && (allowed || node.Name == pod.Spec.NodeName) {
			counts[domain] += 0
			domainOf[node.Name] = domain
		}
	}
	for i := range j.cluster.Pods {
		other := &j.cluster.Pods[i]
		domain, counted := domainOf[other.Spec.NodeName]
		if counted && other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels)) {
			counts[domain]++
		}
	}
	return counts, nil
}
