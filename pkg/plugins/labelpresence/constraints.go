// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// policy is what the arguments say about nodes, compiled. It does not change.
type policy struct {
	rules   []*rule
	tenancy *tenancy // nil if the arguments have none
	// exemptDaemonPods is args.daemonSets: Exempt.
	exemptDaemonPods bool
}

// usesNamespaces reports whether any verdict depends on a namespace's labels.
func (p *policy) usesNamespaces() bool {
	return p.tenancy != nil || slices.ContainsFunc(p.rules, func(r *rule) bool { return r.namespaceSelector != nil })
}

// usesPodLabels reports whether any verdict depends on a pod's labels.
func (p *policy) usesPodLabels() bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.podSelector != nil })
}

// selection is what a pod's own fields say about how the policy applies to it,
// before its namespace is looked at.
type selection struct {
	// rules are the indexes of the rules whose podSelector matches; none for a
	// daemon pod that is exempt.
	rules []int
	// tenancy is whether tenancy governs the pod's namespace.
	tenancy bool
	// needsNamespace is whether the labels of the namespace matter.
	needsNamespace bool
}

// selectFor looks at the pod's labels, owner, node affinity and namespace name,
// and at nothing else: SignPod relies on it.
func (p *policy) selectFor(pod *corev1.Pod) selection {
	s := selection{tenancy: p.tenancy.governs(pod.Namespace)}
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

// mayHelp reports whether a pod that was refused may fit after the facts about
// its namespace changed; before is nil if the namespace was not known. A rule
// that starts to apply does not help.
func (p *policy) mayHelp(s selection, before *namespaceFacts, after namespaceFacts) bool {
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

// refuse returns why the node is refused, or nil. Tenancy comes
// first: it is the boundary, and the reason that a user should see if a node
// breaks both. It allocates nothing.
func (c *constraints) refuse(node *corev1.Node) *refusal {
	if c.tenancy != nil {
		if refused := c.tenancy.refuse(node, c.owner); refused != nil {
			return refused
		}
	}
	for _, r := range c.rules {
		if refused := r.refuse(node.Labels); refused != nil {
			return refused
		}
	}
	return nil
}
