// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// policy is the arguments, compiled. It does not change.
type policy struct {
	topologyKeys   []string
	rules          []rule
	usesNamespaces bool
}

// rule is one of args.rules, compiled.
type rule struct {
	plugin.RuleSelectors

	term term
}

// newPolicy compiles valid arguments.
func newPolicy(args *config.ColocationArgs) (*policy, error) {
	p := &policy{topologyKeys: slices.Clone(args.TopologyKeys)}
	for i := range args.Rules {
		from := &args.Rules[i]
		selectors, err := plugin.CompileSelectors(i, from.PodSelector, from.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		r := rule{
			RuleSelectors: selectors,
			term:          term{rule: i, topologyKeys: p.topologyKeys, requiredTopologyKey: from.RequiredTopologyKey, weight: int64(from.Weight)},
		}
		if len(from.TopologyKeys) > 0 {
			r.term.topologyKeys = slices.Clone(from.TopologyKeys)
		}
		for _, service := range from.Services {
			namespace, name, _ := validation.ParseServiceName(service.Name)
			r.term.services = append(r.term.services, serviceRef{namespace: namespace, name: name, weight: int64(service.Weight)})
		}
		p.usesNamespaces = p.usesNamespaces || selectors.NamespaceSelector != nil
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// namespaceLabels returns the labels of a namespace, and whether it is known.
type namespaceLabels func(namespace string) (map[string]string, bool)

// errUnknownNamespace is that a rule has to know the labels of the pod's
// namespace, and they have not arrived.
type errUnknownNamespace struct{ namespace string }

func (e errUnknownNamespace) Error() string {
	return fmt.Sprintf("namespace %q is not known to the scheduler yet, and a namespaceSelector of %s needs its labels", e.namespace, Name)
}

// selectionDiffers reports whether two versions of a pod are selected by different
// rules, as far as their labels decide it.
func (p *policy) selectionDiffers(old, updated *corev1.Pod) bool {
	for i := range p.rules {
		if rule := &p.rules[i]; rule.SelectsPod(old.Labels) != rule.SelectsPod(updated.Labels) {
			return true
		}
	}
	return false
}

// matchingRules returns the rules that select the pod. The error is an
// errUnknownNamespace.
func (p *policy) matchingRules(pod *corev1.Pod, namespaces namespaceLabels) ([]int, error) {
	var matching []int
	for i := range p.rules {
		rule := &p.rules[i]
		if !rule.SelectsPod(pod.Labels) {
			continue
		}
		if rule.NamespaceSelector != nil {
			of, known := namespaces(pod.Namespace)
			if !known {
				return nil, errUnknownNamespace{pod.Namespace}
			}
			if !rule.SelectsNamespace(of) {
				continue
			}
		}
		matching = append(matching, i)
	}
	return matching, nil
}

// requestOf returns what the pod asks for. The error is an errUnknownNamespace, or
// says what is wrong with the pod's annotations.
func (p *policy) requestOf(pod *corev1.Pod, namespaces namespaceLabels) (request, error) {
	own, ok, err := termOf(pod, p.topologyKeys)
	if err != nil {
		return request{}, err
	}
	var r request
	if ok {
		r.terms = append(r.terms, own)
	}
	if r.rules, err = p.matchingRules(pod, namespaces); err != nil {
		return request{}, err
	}
	for _, i := range r.rules {
		r.terms = append(r.terms, p.rules[i].term)
	}
	return r, nil
}
