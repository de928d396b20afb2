// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// numbered returns n different names.
func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return names
}

// rulesAtTheBounds returns as many rules as there may be, each with as many
// labels, every second one forbidding them, each for pods of its own.
func rulesAtTheBounds(labelsOf func(rule int) []string) []config.LabelPresenceRule {
	rules := make([]config.LabelPresenceRule, maxRules)
	for i := range rules {
		rules[i] = config.LabelPresenceRule{
			Labels: labelsOf(i), Presence: ptr.To(i%2 == 0),
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("a%d", i)}},
		}
	}
	return rules
}

// The work is counted, because the time depends on the machine.
func TestRulePairsComparesFew(t *testing.T) {
	shared := numbered("shared", maxLabelsPerRule)
	tests := []struct {
		name     string
		labelsOf func(int) []string
		want     int
	}{
		{
			name:     "no label in two rules",
			labelsOf: func(i int) []string { return numbered(fmt.Sprintf("r%d", i), maxLabelsPerRule) },
		},
		{
			name:     "every label in every rule",
			labelsOf: func(int) []string { return shared },
			want:     maxRules / 2 * maxRules / 2, // each that requires with each that forbids, once
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := rulesAtTheBounds(tt.labelsOf)
			pairs := newRulePairs(field.NewPath("rules"), len(rules))
			for i := range rules {
				if errs := pairs.add(i, &rules[i]); len(errs) > 0 {
					t.Fatalf("rule %d: want no error, got %v", i, errs)
				}
			}
			if pairs.compared != tt.want {
				t.Errorf("want %d comparisons, got %d", tt.want, pairs.compared)
			}
		})
	}
}

// A label that many rules contradict is reported once per rule, at the earliest.
func TestRulePairsReportsOncePerLabel(t *testing.T) {
	rules := rulesAtTheBounds(func(int) []string { return []string{"a"} })
	for i := range rules {
		rules[i].PodSelector = nil
		rules[i].Labels = []string{"a", fmt.Sprintf("own-%d", i)}
	}
	err := ValidateLabelPresenceArgs(nil, &config.LabelPresenceArgs{Rules: rules, DaemonSets: config.DaemonSetsExempt})
	if got := len(reportedBy(t, err)); got != maxRules-1 {
		t.Errorf("want an error for each rule but the first, got %d", got)
	}
}

func TestValidateLabelPresenceArgsBounds(t *testing.T) {
	rule := func(labels ...string) config.LabelPresenceRule {
		return config.LabelPresenceRule{Labels: labels, Presence: ptr.To(true)}
	}
	selector := func(labels, expressions, values int) *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for _, key := range numbered("l", labels) {
			s.MatchLabels[key] = "v"
		}
		for _, key := range numbered("e", expressions) {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: numbered("v", values),
			})
		}
		return s
	}
	// sized has n more than it may of each list, or is at the bounds with n = 0.
	sized := func(n int) *config.LabelPresenceArgs {
		long := rule(numbered("k", maxLabelsPerRule+n)...)
		long.PodSelector = selector(maxSelectorRequirements/2, maxSelectorRequirements/2+n, 1)
		long.NamespaceSelector = selector(0, 1, maxSelectorValues+n)
		args := &config.LabelPresenceArgs{
			Rules:      []config.LabelPresenceRule{long},
			DaemonSets: config.DaemonSetsExempt,
			Tenancy: &config.LabelPresenceTenancy{
				NodeLabelKey: "node-restriction.kubernetes.io/t", NodeTaintKey: "t", NamespaceLabelKey: "t", Tenants: config.TenantsConfined,
				ExemptNamespaces: numbered("n", maxExemptNamespaces+n),
			},
		}
		for _, key := range numbered("p", maxPreferences+n) {
			args.Preferences = append(args.Preferences, config.LabelPresencePreference{Label: key, Presence: ptr.To(true), Weight: 1})
		}
		return args
	}
	tooMany := []reported{
		{field.ErrorTypeTooMany, "rules[0].labels"},
		{field.ErrorTypeTooMany, "rules[0].podSelector"},
		{field.ErrorTypeTooMany, "rules[0].namespaceSelector.matchExpressions"},
		{field.ErrorTypeTooMany, "preferences"},
		{field.ErrorTypeTooMany, "tenancy.exemptNamespaces"},
	}
	manyRules := &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt, Rules: make([]config.LabelPresenceRule, maxRules+1)}
	tests := []struct {
		name string
		args *config.LabelPresenceArgs
		want []reported
	}{
		{name: "at the bounds", args: sized(0)},
		{name: "rules at the bound", args: &config.LabelPresenceArgs{
			DaemonSets: config.DaemonSetsExempt,
			Rules:      rulesAtTheBounds(func(int) []string { return numbered("k", maxLabelsPerRule) }),
		}},
		{name: "one above", args: sized(1), want: tooMany},
		{name: "far above", args: sized(200000), want: tooMany},
		{name: "too many rules", args: manyRules, want: []reported{{field.ErrorTypeTooMany, "rules"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, reportedBy(t, ValidateLabelPresenceArgs(nil, tt.args))); diff != "" {
				t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
			}
		})
	}
}

func BenchmarkValidateLabelPresenceArgsAtTheBounds(b *testing.B) {
	shared := numbered("shared", maxLabelsPerRule)
	args := &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt, Rules: rulesAtTheBounds(func(int) []string { return shared })}
	for b.Loop() {
		if err := ValidateLabelPresenceArgs(nil, args); err != nil {
			b.Fatal(err)
		}
	}
}
