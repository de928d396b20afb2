// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// refusal is why a node is refused: what the user reads and what is counted.
// All refusals are made once, in New: Filter only hands them out, and a reason
// is the same text on every node, which keeps the pod's event short.
type refusal struct {
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
// rule that forbids it, with it) is refused.
type ruleLabel struct {
	key     string
	refusal *refusal
}

// newRules compiles the args.rules of a profile. counter returns what counts the
// refusals of the rule with the given index.
func newRules(args []config.LabelPresenceRule, profile string, counter func(index int) metrics.CounterMetric) ([]*rule, error) {
	rules := make([]*rule, 0, len(args))
	for i := range args {
		podSelector, err := compileSelector(args[i].PodSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing rules[%d].podSelector: %w", i, err)
		}
		namespaceSelector, err := compileSelector(args[i].NamespaceSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing rules[%d].namespaceSelector: %w", i, err)
		}
		r := &rule{presence: *args[i].Presence, podSelector: podSelector, namespaceSelector: namespaceSelector}
		for _, key := range args[i].Labels {
			r.labels = append(r.labels, ruleLabel{
				key:     key,
				refusal: &refusal{reason: ruleReason(profile, i, key, r.presence), counter: counter(i)},
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
	return withoutVerbs(fmt.Sprintf(format, key, index, profile) + " (ask that profile's administrator)")
}

// withoutVerbs replaces percent signs, because the scheduler uses reasons as a
// format string. Label keys have none, but the name of a profile may.
func withoutVerbs(reason string) string {
	return strings.ReplaceAll(reason, "%", "?")
}

// compileSelector returns nil for a selector that matches everything. (In the
// API's own conversion an absent selector matches nothing.)
func compileSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	if compiled.Empty() {
		return nil, nil
	}
	return compiled, nil
}

// refuse returns why the rule refuses a node with these labels, or nil.
func (r *rule) refuse(nodeLabels map[string]string) *refusal {
	for i := range r.labels {
		if _, present := nodeLabels[r.labels[i].key]; present != r.presence {
			return r.labels[i].refusal
		}
	}
	return nil
}

// selects reports whether the rule's podSelector matches the pod's labels.
func (r *rule) selects(podLabels map[string]string) bool {
	return r.podSelector == nil || r.podSelector.Matches(labels.Set(podLabels))
}
