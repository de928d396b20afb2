// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// ruleScope is which pods a rule applies to: those that meet every constraint,
// each of which is on one label of the pod or of its namespace. A label without
// an entry is free. An absent and an empty selector both match all.
type ruleScope map[scopeLabel]labelConstraint

// scopeLabel is a label of one of the two objects that a rule selects by.
type scopeLabel struct{ of, key string }

// labelConstraint is what all requirements on one label leave of it: whether the
// label may be missing, and the set of values that it may have.
type labelConstraint struct {
	absent bool
	// values is the set of allowed values, or with except that of the others.
	values sets.Set[string]
	except bool
}

// scopeOf returns the scope of a rule with valid selectors.
func scopeOf(rule *config.LabelPresenceRule) ruleScope {
	scope := ruleScope{}
	scope.restrict("pod", rule.PodSelector)
	scope.restrict("namespace", rule.NamespaceSelector)
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

// restrict adds the requirements of a selector to the scope.
func (s ruleScope) restrict(of string, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for key, value := range selector.MatchLabels {
		// matchLabels is matchExpressions with In and one value.
		s.require(scopeLabel{of, key}, metav1.LabelSelectorOpIn, value)
	}
	for _, expression := range selector.MatchExpressions {
		s.require(scopeLabel{of, expression.Key}, expression.Operator, expression.Values...)
	}
}

func (s ruleScope) require(label scopeLabel, operator metav1.LabelSelectorOperator, values ...string) {
	constraint := labelConstraint{
		// NotIn also matches without the label.
		absent: operator == metav1.LabelSelectorOpNotIn || operator == metav1.LabelSelectorOpDoesNotExist,
		values: sets.New(values...),
		// Exists has no values: any but none of them.
		except: operator == metav1.LabelSelectorOpNotIn || operator == metav1.LabelSelectorOpExists,
	}
	if before, found := s[label]; found {
		constraint = constraint.and(before)
	}
	s[label] = constraint
}

// nothing says whether the constraint can never be met.
func (c labelConstraint) nothing() bool {
	return !c.absent && !c.except && c.values.Len() == 0
}

// unmatchable returns the labels of which the selector, valid otherwise, requires
// what no set of labels meets, in order.
func unmatchable(selector *metav1.LabelSelector) []string {
	scope := ruleScope{}
	scope.restrict("", selector)
	var keys []string
	for label, constraint := range scope {
		if constraint.nothing() {
			keys = append(keys, label.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// within says whether every pod of s is a pod of other, if s has any.
func (s ruleScope) within(other ruleScope) bool {
	for label, constraint := range other {
		mine, found := s[label]
		if !found || !mine.within(constraint) {
			return false
		}
	}
	return true
}

// String returns equal text for equal scopes.
func (s ruleScope) String() string {
	lines := make([]string, 0, len(s))
	for label, c := range s {
		lines = append(lines, fmt.Sprintf("%s %s %t %t %q", label.of, label.key, c.absent, c.except, sets.List(c.values)))
	}
	slices.Sort(lines)
	return strings.Join(lines, ";")
}

func (c labelConstraint) and(other labelConstraint) labelConstraint {
	both := labelConstraint{absent: c.absent && other.absent, except: c.except && other.except}
	switch {
	case both.except:
		both.values = c.values.Union(other.values)
	case c.except:
		both.values = other.values.Difference(c.values)
	case other.except:
		both.values = c.values.Difference(other.values)
	default:
		both.values = c.values.Intersection(other.values)
	}
	return both
}

// within says whether other allows all that c allows.
func (c labelConstraint) within(other labelConstraint) bool {
	if c.absent && !other.absent {
		return false
	}
	switch {
	case c.except && other.except:
		return c.values.IsSuperset(other.values)
	case c.except:
		return false // there are always more values than a list has
	case other.except:
		return c.values.Intersection(other.values).Len() == 0
	default:
		return other.values.IsSuperset(c.values)
	}
}
