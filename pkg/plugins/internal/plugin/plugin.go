// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin has the small functions that every plugin of Berth needs.
package plugin

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// ReadState returns what an earlier extension point has left in the cycle state under
// the key.
func ReadState[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (T, error) {
	data, err := state.Read(key)
	if err != nil {
		var none T
		return none, fmt.Errorf("reading %q from cycleState: %w", key, err)
	}
	s, ok := data.(T)
	if !ok {
		return s, fmt.Errorf("reading %q from cycleState: want %T, got %T", key, s, data)
	}
	return s, nil
}

// RuleSelectors are the selectors of a rule in arguments, compiled; one that is nil matches
// everything.
type RuleSelectors struct {
	PodSelector, NamespaceSelector labels.Selector
}

// CompileSelectors compiles the selectors of rules[index].
func CompileSelectors(index int, podSelector, namespaceSelector *metav1.LabelSelector) (s RuleSelectors, err error) {
	if s.PodSelector, err = compileSelector(podSelector); err != nil {
		return s, fmt.Errorf("parsing rules[%d].podSelector: %w", index, err)
	}
	if s.NamespaceSelector, err = compileSelector(namespaceSelector); err != nil {
		return s, fmt.Errorf("parsing rules[%d].namespaceSelector: %w", index, err)
	}
	return s, nil
}

// SelectsPod reports whether the rule is for pods with these labels, whatever their namespace.
func (s *RuleSelectors) SelectsPod(of map[string]string) bool {
	return s.PodSelector == nil || s.PodSelector.Matches(labels.Set(of))
}

// SelectsNamespace reports whether the rule is for pods of a namespace with these labels.
func (s *RuleSelectors) SelectsNamespace(of map[string]string) bool {
	return s.NamespaceSelector == nil || s.NamespaceSelector.Matches(labels.Set(of))
}

// compileSelector returns nil for a selector that matches everything. (In the
// API's own conversion an absent selector matches nothing.)
func compileSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || compiled.Empty() {
		return nil, err
	}
	return compiled, nil
}

// longestAnnotation is longer than any annotation of a pod that a plugin of Berth reads.
const longestAnnotation = 8192

// AnnotationDiffers reports whether two versions of a pod's annotations differ in what a plugin
// reads under the key. Of values that are too long to be read only the lengths count: queueing
// hints ask, and anybody can write 256 KiB.
func AnnotationDiffers(old, updated map[string]string, key string) bool {
	before, had := old[key]
	after, has := updated[key]
	return had != has || len(before) != len(after) || len(after) <= longestAnnotation && before != after
}
