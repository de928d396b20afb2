// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// unselected are the keys of the pod's nodeSelector that the node does not meet.
func unselected(pod *corev1.Pod, node *corev1.Node) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if value, ok := node.Labels[key]; !ok || value != pod.Spec.NodeSelector[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// required returns the pod's required affinity to nodes, or nil.
func required(pod *corev1.Pod) *corev1.NodeSelector {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// meetsAffinity reports whether the node meets the required affinity.
func meetsAffinity(pod *corev1.Pod, node *corev1.Node) bool {
	terms := required(pod)
	if terms == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(terms)
	return err == nil && selector.Match(node)
}

// detailAffinity says what the pod asks for that the node has not, and what nodes have.
func detailAffinity(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, key := range unselected(s.pod, n.Node()) {
		want := s.pod.Spec.NodeSelector[key]
		texts = append(texts, fmt.Sprintf("nodeSelector asks for %s=%s, %s", key, want, s.valuesOf(key, n.Node(), func(value string, ok bool) bool { return ok && value == want })))
	}
	if !meetsAffinity(s.pod, n.Node()) {
		parts := []string{"required nodeAffinity asks for " + affinityText(required(s.pod))}
		for _, r := range unmet(required(s.pod), n.Node()) {
			parts = append(parts, s.valuesOf(r.Key, n.Node(), func(value string, ok bool) bool { return meets(r, value, ok) }))
		}
		texts = append(texts, strings.Join(parts, ", "))
	}
	return strings.Join(texts, "; ")
}

// unmet are the expressions about labels that the node does not meet, of the one term that
// there is: of several, each could be the one that is meant.
func unmet(selector *corev1.NodeSelector, node *corev1.Node) []*corev1.NodeSelectorRequirement {
	if len(selector.NodeSelectorTerms) != 1 {
		return nil
	}
	var found []*corev1.NodeSelectorRequirement
	expressions := selector.NodeSelectorTerms[0].MatchExpressions
	for i := range expressions {
		if value, ok := node.Labels[expressions[i].Key]; !meets(&expressions[i], value, ok) {
			found = append(found, &expressions[i])
		}
	}
	return found
}

// meets reports whether a label meets an expression.
func meets(r *corev1.NodeSelectorRequirement, value string, ok bool) bool {
	node := &corev1.Node{}
	if ok {
		node.Labels = map[string]string{r.Key: value}
	}
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{*r}}}})
	return err == nil && selector.Match(node)
}

// valuesOf says how many nodes match what is asked of a label, or else which values nodes
// have: of those that the owner of the pod may know of.
func (s *situation) valuesOf(key string, node *corev1.Node, asked func(value string, ok bool) bool) string {
	count, without, matching := map[string]int{}, 0, 0
	for _, n := range s.visible {
		value, ok := n.Node().Labels[key]
		switch {
		case asked(value, ok):
			matching++
		case ok:
			count[value]++
		default:
			without++
		}
	}
	if matching > 0 {
		own := "has no such label"
		if value, ok := node.Labels[key]; ok {
			own = "has " + value
		}
		return fmt.Sprintf("which %s, and this one %s", match(matching), own)
	}
	values := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	told := make([]string, 0, len(values))
	for _, value := range values {
		told = append(told, fmt.Sprintf("%s (%s)", value, output.Count(count[value], "node")))
	}
	nobody := "no node"
	if len(s.visible) < s.total {
		nobody = "no node that the pod may use"
	}
	if len(told) == 0 {
		return "and " + nobody + " has the label " + key
	}
	text := "and " + nobody + " matches; found: " + output.List(told, maxListed)
	if without > 0 {
		text += fmt.Sprintf(", and %d without the label", without)
	}
	return text
}

func match(nodes int) string {
	if nodes == 1 {
		return "1 node matches"
	}
	return fmt.Sprintf("%d nodes match", nodes)
}

// affinityText writes terms of which one has to be met.
func affinityText(selector *corev1.NodeSelector) string {
	var terms []string
	for _, term := range selector.NodeSelectorTerms {
		var parts []string
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

func detailPorts(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, port := range hostPorts(s.pod) {
		for _, info := range n.GetPods() {
			if slices.ContainsFunc(hostPorts(info.GetPod()), func(other corev1.ContainerPort) bool { return conflict(port, other) }) {
				texts = append(texts, fmt.Sprintf("%s has port %d of the host", klog.KObj(info.GetPod()), port.HostPort))
			}
		}
	}
	return output.List(texts, maxListed)
}

// hostPorts are the ports of the host that the pod takes.
func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// conflict reports whether two ports are the same of one address.
func conflict(a, b corev1.ContainerPort) bool {
	anyIP := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	protocol := func(p corev1.ContainerPort) corev1.Protocol {
		if p.Protocol == "" {
			return corev1.ProtocolTCP
		}
		return p.Protocol
	}
	return a.HostPort == b.HostPort && protocol(a) == protocol(b) && (a.HostIP == b.HostIP || anyIP(a.HostIP) || anyIP(b.HostIP))
}

// detailPodAffinity names the pods whose rule it is, or that stand in the way of the pod's
// own, and in which domain.
func detailPodAffinity(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	var found []string
	switch {
	case slices.Contains(v.Reasons, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch):
		found = s.keptAwayBy(n.Node())
	case slices.Contains(v.Reasons, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch):
		found = s.keepsAwayFrom(n.Node())
	case s.pod.Spec.Affinity != nil && s.pod.Spec.Affinity.PodAffinity != nil:
		for i := range s.pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			term := &s.pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
			if len(s.inDomain(n.Node(), term.TopologyKey, func(other *corev1.Pod) bool { return selects(term, s.pod, other) })) == 0 {
				found = append(found, fmt.Sprintf("no pod with %s runs in the same %s", metav1.FormatLabelSelector(term.LabelSelector), domain(n.Node(), term.TopologyKey)))
			}
		}
	}
	return output.List(found, maxListed)
}

// keptAwayBy names the pods whose required anti-affinity keeps the pod from the node.
func (s *situation) keptAwayBy(node *corev1.Node) []string {
	var found []string
	for _, n := range s.visible {
		for _, info := range n.GetPods() {
			other := info.GetPod()
			for _, term := range antiAffinity(other) {
				if selects(&term, other, s.pod) && sameDomain(n.Node(), node, term.TopologyKey) {
					found = append(found, fmt.Sprintf("pod %s keeps pods with %s out of its %s", podText(other), metav1.FormatLabelSelector(term.LabelSelector), domain(node, term.TopologyKey)))
					break
				}
			}
		}
	}
	return found
}

// keepsAwayFrom names the pods from which the pod's own required anti-affinity keeps it, on
// the node or elsewhere in its domain.
func (s *situation) keepsAwayFrom(node *corev1.Node) []string {
	var found []string
	for _, term := range antiAffinity(s.pod) {
		for _, other := range s.inDomain(node, term.TopologyKey, func(other *corev1.Pod) bool { return selects(&term, s.pod, other) }) {
			text := "it runs " + podText(other)
			if term.TopologyKey != corev1.LabelHostname {
				text = fmt.Sprintf("%s runs in the same %s", podText(other), domain(node, term.TopologyKey))
			}
			found = append(found, text)
		}
	}
	return found
}

// inDomain are the pods of a kind in the topology domain of a node.
func (s *situation) inDomain(node *corev1.Node, key string, is func(*corev1.Pod) bool) []*corev1.Pod {
	var found []*corev1.Pod
	for _, n := range s.visible {
		if !sameDomain(n.Node(), node, key) {
			continue
		}
		for _, info := range n.GetPods() {
			if is(info.GetPod()) {
				found = append(found, info.GetPod())
			}
		}
	}
	return found
}

func sameDomain(a, b *corev1.Node, key string) bool {
	value, ok := a.Labels[key]
	other, both := b.Labels[key]
	return ok && both && value == other
}

// domain names the topology domain of a node.
func domain(node *corev1.Node, key string) string {
	return fmt.Sprintf("%s (%s)", key, cmp.Or(node.Labels[key], "the node has none"))
}

// antiAffinity are the required terms of a pod.
func antiAffinity(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// inTheWay are the pods on a node that the pod's required anti-affinity selects, and those
// whose own selects the pod.
func inTheWay(pod *corev1.Pod, n fwk.NodeInfo) []*corev1.Pod {
	var found []*corev1.Pod
	for _, info := range n.GetPods() {
		other := info.GetPod()
		if slices.ContainsFunc(antiAffinity(pod), func(term corev1.PodAffinityTerm) bool { return selects(&term, pod, other) }) ||
			slices.ContainsFunc(antiAffinity(other), func(term corev1.PodAffinityTerm) bool { return selects(&term, other, pod) }) {
			found = append(found, other)
		}
	}
	return found
}
