// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// rulePairs compares each rule with those added before it. Only rules that name
// the same label are compared, each pair of them once.
type rulePairs struct {
	path   *field.Path
	scopes []ruleScope
	// places has the rules that require a label, and those that forbid it.
	places map[labelPresence][]labelPlace
	// same has the first rule of those that say the same.
	same map[string]int
	// compared is how many pairs of scopes were compared: the part of the work
	// that grows with the square of the rules, of which the tests know the limit.
	compared int
}

type labelPresence struct {
	label    string
	presence bool
}

type labelPlace struct{ rule, label int }

func newRulePairs(path *field.Path, rules int) *rulePairs {
	return &rulePairs{
		path:   path,
		scopes: make([]ruleScope, rules),
		places: map[labelPresence][]labelPlace{},
		same:   map[string]int{},
	}
}

// add returns what is wrong with rule i because of the rules added before, at
// most one error for the rule and one for each of its labels. The rule must have
// valid selectors and a presence.
//
// Two rules contradict each other if one requires a label that the other forbids
// and every pod of one is a pod of the other: those pods would fit nowhere. Rules
// whose selectors merely may overlap are left alone, because whether a pod
// matches both is not ours to know.
func (p *rulePairs) add(i int, rule *config.LabelPresenceRule) field.ErrorList {
	if len(rule.Labels) == 0 {
		return nil
	}
	p.scopes[i] = scopeOf(rule)
	var errs field.ErrorList
	if err := p.repeated(i, rule); err != nil {
		errs = append(errs, err)
	}
	nested := make(map[int]bool) // earlier rule, and whether one has all pods of the other
	for k, label := range rule.Labels {
		for _, other := range p.places[labelPresence{label, !*rule.Presence}] {
			known, found := nested[other.rule]
			if !found {
				known = p.nested(i, other.rule)
				nested[other.rule] = known
			}
			if known {
				errs = append(errs, field.Invalid(p.path.Index(i).Child("labels").Index(k), label, fmt.Sprintf(
					"contradicts %s: one rule requires the label, the other forbids it, and pods that both apply to would fit on no node",
					p.path.Index(other.rule).Child("labels").Index(other.label))))
				break
			}
		}
	}
	for k, label := range rule.Labels {
		at := labelPresence{label, *rule.Presence}
		p.places[at] = append(p.places[at], labelPlace{i, k})
	}
	return errs
}

func (p *rulePairs) nested(i, j int) bool {
	p.compared++
	return p.scopes[i].within(p.scopes[j]) || p.scopes[j].within(p.scopes[i])
}

// repeated reports a rule of the same labels, in any order, presence and scope
// as an earlier one.
func (p *rulePairs) repeated(i int, rule *config.LabelPresenceRule) *field.Error {
	// Neither labels nor values of a valid selector contain the separators.
	labels := slices.Compact(slices.Sorted(slices.Values(rule.Labels)))
	says := fmt.Sprintf("%t\n%s\n%s", *rule.Presence, strings.Join(labels, "\n"), p.scopes[i])
	first, found := p.same[says]
	if !found {
		p.same[says] = i
		return nil
	}
	err := field.Duplicate(p.path.Index(i), rule.Labels)
	err.Detail = fmt.Sprintf("says the same as %s", p.path.Index(first))
	return err
}
