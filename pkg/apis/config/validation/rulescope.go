// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// scopeOf returns the requirements that a rule's two selectors make of a pod, in
// a form in which equal requirements are equal strings. They are all ANDed, so
// that a rule whose scope is a superset of another's applies to a subset of its
// pods. An absent and an empty selector both add nothing: they match all pods.
func scopeOf(rule *config.LabelPresenceRule) sets.Set[string] {
	scope := sets.New[string]()
	addRequirements(scope, "pod", rule.PodSelector)
	addRequirements(scope, "namespace", rule.NamespaceSelector)
	return scope
}

// appliesToAll says whether the rule applies to every pod, because no selector
// requires anything.
func appliesToAll(rule *config.LabelPresenceRule) bool {
	for _, selector := range []*metav1.LabelSelector{rule.PodSelector, rule.NamespaceSelector} {
		if selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
			return false
		}
	}
	return true
}

func addRequirements(scope sets.Set[string], of string, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	add := func(key string, operator metav1.LabelSelectorOperator, values ...string) {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
		scope.Insert(of + " " + key + " " + string(operator) + " " + strings.Join(values, ","))
	}
	for key, value := range selector.MatchLabels {
		// matchLabels is matchExpressions with In and one value.
		add(key, metav1.LabelSelectorOpIn, value)
	}
	for _, expression := range selector.MatchExpressions {
		add(expression.Key, expression.Operator, expression.Values...)
	}
}
