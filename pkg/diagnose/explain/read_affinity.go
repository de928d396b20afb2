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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

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

// detailAffinity says what the pod asks for that the node lacks, and what nodes have.
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

// unmet returns the expressions about labels that the node does not meet, if there is only
// one term: of several, each could be the one that is meant.
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
// have. It is about the nodes that the owner of the pod may know of.
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
	none := "no node"
	if len(s.visible) < s.total {
		none = "no node that the pod may use"
	}
	if len(told) == 0 {
		return "and " + none + " has the label " + key
	}
	text := "and " + none + " matches; found: " + output.List(told, maxListed)
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

// affinityText writes terms: one of them has to be met.
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
	for _, info := range n.GetPods() {
		if port := conflictingPort(s.pod, info.GetPod()); port > 0 {
			texts = append(texts, fmt.Sprintf("%s uses host port %d", podText(info.GetPod()), port))
		}
	}
	return output.List(texts, maxListed)
}

// conflictingPort returns a host port that both pods ask for, or 0.
func conflictingPort(pod, other *corev1.Pod) int32 {
	used := fwk.HostPortInfo{}
	for _, port := range schedutil.GetHostPorts(other) {
		used.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
	for _, port := range schedutil.GetHostPorts(pod) {
		if used.CheckConflict(port.HostIP, string(port.Protocol), port.HostPort) {
			return port.HostPort
		}
	}
	return 0
}

// terms returns the required affinity and anti-affinity of the pod, as the scheduler parses
// them.
func (s *situation) terms() (affinity, anti []fwk.AffinityTerm) {
	info, err := framework.NewPodInfo(s.pod)
	if err != nil {
		return nil, nil // the API server refuses such a pod
	}
	return info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()
}

func (s *situation) selects(term *fwk.AffinityTerm, pod *corev1.Pod) bool {
	if s.namespaces == nil {
		s.namespaces = map[string]labels.Set{}
		for _, namespace := range others[*corev1.Namespace](s.in) {
			s.namespaces[namespace.Name] = namespace.Labels
		}
	}
	return term.Matches(pod, s.namespaces[pod.Namespace])
}

// detailPodAffinity names the pods whose anti-affinity keeps the pod away, or from which its
// own does, and in which topology domain.
func detailPodAffinity(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	var found []string
	affinity, anti := s.terms()
	switch {
	case slices.Contains(v.Reasons, interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch):
		found = s.keptAwayBy(n.Node())
	case slices.Contains(v.Reasons, interpodaffinity.ErrReasonAntiAffinityRulesNotMatch):
		for i := range anti {
			for _, other := range s.inDomain(n.Node(), &anti[i]) {
				text := "it runs " + podText(other)
				if key := anti[i].TopologyKey; key != corev1.LabelHostname {
					text = fmt.Sprintf("%s runs in the same %s", podText(other), domain(n.Node(), key))
				}
				found = append(found, text)
			}
		}
	default:
		for i := range affinity {
			if len(s.inDomain(n.Node(), &affinity[i])) == 0 {
				found = append(found, fmt.Sprintf("no pod with %s runs in the same %s", affinity[i].Selector, domain(n.Node(), affinity[i].TopologyKey)))
			}
		}
	}
	return output.List(found, maxListed)
}

// keptAwayBy names the pods whose required anti-affinity keeps the pod from the node.
func (s *situation) keptAwayBy(node *corev1.Node) []string {
	var found []string
	for _, n := range s.visible {
		for _, info := range n.GetPodsWithRequiredAntiAffinity() {
			for _, term := range info.GetRequiredAntiAffinityTerms() {
				if s.selects(&term, s.pod) && sameDomain(n.Node(), node, term.TopologyKey) {
					found = append(found, fmt.Sprintf("pod %s keeps pods with %s out of its %s", podText(info.GetPod()), term.Selector, domain(node, term.TopologyKey)))
					break
				}
			}
		}
	}
	return found
}

// inDomain returns the pods that a term selects in the topology domain of a node.
func (s *situation) inDomain(node *corev1.Node, term *fwk.AffinityTerm) []*corev1.Pod {
	var found []*corev1.Pod
	for _, n := range s.visible {
		if !sameDomain(n.Node(), node, term.TopologyKey) {
			continue
		}
		for _, info := range n.GetPods() {
			if s.selects(term, info.GetPod()) {
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

// inTheWay returns the pods on a node that the pod's required anti-affinity selects, and
// those whose own selects the pod.
func (s *situation) inTheWay(n fwk.NodeInfo) []*corev1.Pod {
	_, anti := s.terms()
	var found []*corev1.Pod
	for _, info := range n.GetPods() {
		if slices.ContainsFunc(anti, func(term fwk.AffinityTerm) bool { return s.selects(&term, info.GetPod()) }) ||
			slices.ContainsFunc(info.GetRequiredAntiAffinityTerms(), func(term fwk.AffinityTerm) bool { return s.selects(&term, s.pod) }) {
			found = append(found, info.GetPod())
		}
	}
	return found
}
