// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// rejection is why a node is rejected: what the user reads and what is counted.
// All rejections are made once, in New: Filter only hands them out, and a reason
// is the same text on every node, which keeps the pod's event short.
type rejection struct {
	reason  string
	counter metrics.CounterMetric
}

// rule is one of args.rules, compiled.
type rule struct {
	presence bool
	labels   []ruleLabel
	// podSelector and namespaceSelector are nil if they match everything.
	podSelector       labels.Selector
	namespaceSelector labels.Selector
}

// ruleLabel is one label key of a rule, and how a node without it (or, for a
// rule that forbids it, with it) is rejected.
type ruleLabel struct {
	key       string
	rejection *rejection
}

// newRules compiles the args.rules of a profile. counter returns what counts the
// rejections of the rule with the given index.
func newRules(args []config.LabelPresenceRule, profile string, counter func(index int) metrics.CounterMetric) ([]*rule, error) {
	rules := make([]*rule, 0, len(args))
	for i := range args {
		podSelector, err := plugin.CompileSelector(args[i].PodSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing rules[%d].podSelector: %w", i, err)
		}
		namespaceSelector, err := plugin.CompileSelector(args[i].NamespaceSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing rules[%d].namespaceSelector: %w", i, err)
		}
		r := &rule{presence: *args[i].Presence, podSelector: podSelector, namespaceSelector: namespaceSelector}
		for _, key := range args[i].Labels {
			r.labels = append(r.labels, ruleLabel{
				key:       key,
				rejection: &rejection{reason: ruleReason(profile, i, key, r.presence), counter: counter(i)},
			})
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ruleReason is what the user reads of a node that breaks a rule: the label, by
// which the nodes can be listed, and where the rule stands.
func ruleReason(profile string, index int, key string, presence bool) string {
	format := "node(s) had label %q, which rules[%d] of LabelPresence in profile %q forbids"
	if presence {
		format = "node(s) didn't have label %q, which rules[%d] of LabelPresence in profile %q requires"
	}
	return messages.Escape(fmt.Sprintf(format, key, index, profile) + " (ask that profile's administrator)")
}

// reject returns why the rule rejects a node with these labels, or nil.
func (r *rule) reject(nodeLabels map[string]string) *rejection {
	for i := range r.labels {
		if _, present := nodeLabels[r.labels[i].key]; present != r.presence {
			return r.labels[i].rejection
		}
	}
	return nil
}

// selects reports whether the rule's podSelector matches the pod's labels.
func (r *rule) selects(podLabels map[string]string) bool {
	return r.podSelector == nil || r.podSelector.Matches(labels.Set(podLabels))
}

// policy is what the arguments say about nodes, compiled. It does not change.
type policy struct {
	rules   []*rule
	tenancy *tenancy // nil if the arguments have none
	// exemptDaemonPods is args.daemonSets: Exempt.
	exemptDaemonPods bool
}

// usesNamespaces reports whether anything depends on a namespace's labels.
func (p *policy) usesNamespaces() bool {
	return p.tenancy != nil || slices.ContainsFunc(p.rules, func(r *rule) bool { return r.namespaceSelector != nil })
}

// usesPodLabels reports whether anything depends on a pod's labels.
func (p *policy) usesPodLabels() bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.podSelector != nil })
}

// selection is what a pod's own fields say about how the policy applies to it,
// before its namespace is looked at.
type selection struct {
	// rules are the indexes of the rules whose podSelector matches; none for a
	// daemon pod that is exempt.
	rules []int
	// tenancy is whether tenancy applies to the pod's namespace.
	tenancy bool
	// needsNamespace is whether the labels of the namespace matter.
	needsNamespace bool
}

// selectFor looks at the pod's labels, owner, node affinity and namespace name,
// and at nothing else: SignPod relies on it.
func (p *policy) selectFor(pod *corev1.Pod) selection {
	s := selection{tenancy: p.tenancy.appliesTo(pod.Namespace)}
	s.needsNamespace = s.tenancy
	if p.exemptDaemonPods && isDaemonPod(pod) {
		return s
	}
	for i, r := range p.rules {
		if !r.selects(pod.Labels) {
			continue
		}
		s.rules = append(s.rules, i)
		s.needsNamespace = s.needsNamespace || r.namespaceSelector != nil
	}
	return s
}

// namespaceFacts is all that the policy wants to know of a namespace. Two
// namespaces with equal facts are the same to every pod.
type namespaceFacts struct {
	// matched has one entry per rule: whether its namespaceSelector matches.
	matched []bool
	tenant  tenant
}

// equal reports whether the facts are the same.
func (f namespaceFacts) equal(other namespaceFacts) bool {
	return f.tenant == other.tenant && slices.Equal(f.matched, other.matched)
}

// factsOf derives the facts from a namespace's labels.
func (p *policy) factsOf(namespaceLabels map[string]string) namespaceFacts {
	facts := namespaceFacts{matched: make([]bool, len(p.rules))}
	for i, r := range p.rules {
		facts.matched[i] = r.namespaceSelector == nil || r.namespaceSelector.Matches(labels.Set(namespaceLabels))
	}
	if p.tenancy != nil {
		facts.tenant = tenantOf(namespaceLabels, p.tenancy.namespaceLabelKey)
	}
	return facts
}

// mayMakeSchedulable reports whether a pod that was rejected may fit after the facts about
// its namespace changed; before is nil if the namespace was not known. A rule
// that starts to apply does not help.
func (p *policy) mayMakeSchedulable(s selection, before *namespaceFacts, after namespaceFacts) bool {
	if !s.needsNamespace {
		return false
	}
	if before == nil || (s.tenancy && before.tenant != after.tenant) {
		return true
	}
	return slices.ContainsFunc(s.rules, func(i int) bool { return before.matched[i] && !after.matched[i] })
}

// constraints is what one pod requires of its node: the policy with the pod's
// and its namespace's side filled in. It does not change.
type constraints struct {
	rules   []*rule
	tenancy *tenancy // nil if it does not govern the pod
	owner   tenant   // the tenant of the pod's namespace
}

// constrain completes a selection with the facts about the pod's namespace. The
// facts are not read unless the selection needs them.
func (p *policy) constrain(s selection, facts namespaceFacts) constraints {
	var c constraints
	for _, i := range s.rules {
		if p.rules[i].namespaceSelector == nil || facts.matched[i] {
			c.rules = append(c.rules, p.rules[i])
		}
	}
	if s.tenancy {
		c.tenancy, c.owner = p.tenancy, facts.tenant
	}
	return c
}

// none reports whether every node will do.
func (c *constraints) none() bool {
	return len(c.rules) == 0 && c.tenancy == nil
}

// reject returns why the node is rejected, or nil. Tenancy comes
// first: it is the boundary, and the reason that a user should see if a node
// breaks both. It allocates nothing.
func (c *constraints) reject(node *corev1.Node) *rejection {
	if c.tenancy != nil {
		if rejected := c.tenancy.reject(node, c.owner); rejected != nil {
			return rejected
		}
	}
	for _, r := range c.rules {
		if rejected := r.reject(node.Labels); rejected != nil {
			return rejected
		}
	}
	return nil
}

// isDaemonPod reports whether the pod looks like one that the DaemonSet
// controller made for one given node: controlled by a DaemonSet, and with the
// required affinity to a node's name that this controller adds.
//
// Both can be written by whoever may create pods. A pod gains nothing by it but
// the exemption from rules, and only on the one node that it names; where even
// that is too much, args.daemonSets is Enforce.
func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != appsv1.GroupName {
		return false
	}
	return isPinnedToNode(pod)
}

// isPinnedToNode reports whether the required node affinity is one term that
// names exactly one node.
func isPinnedToNode(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return false
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 {
		return false
	}
	for _, field := range required.NodeSelectorTerms[0].MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
			return true
		}
	}
	return false
}

// preferences is args.preferences, compiled.
type preferences struct {
	terms []term
	// total is the sum of all weights, at least 1 if there is a term.
	total int64
}

// term is one preference.
type term struct {
	label    string
	presence bool
	weight   int64
}

func newPreferences(args []config.LabelPresencePreference) preferences {
	var p preferences
	for _, preference := range args {
		w := term{label: preference.Label, presence: *preference.Presence, weight: int64(preference.Weight)}
		p.terms = append(p.terms, w)
		p.total += w.weight
	}
	return p
}

// score returns 100 * (sum of the weights of the satisfied preferences) / (sum
// of all weights), rounded down: 0 if a node satisfies none, 100 if it satisfies
// all. Weights are 1 to 100, so nothing overflows. Without a preference it returns 0.
func (p *preferences) score(nodeLabels map[string]string) int64 {
	if p.total == 0 {
		return 0 // PreScore skips the plugin; but another plugin may ask for scores alone
	}
	var satisfied int64
	for i := range p.terms {
		if _, present := nodeLabels[p.terms[i].label]; present == p.terms[i].presence {
			satisfied += p.terms[i].weight
		}
	}
	return fwk.MaxScore * satisfied / p.total
}
