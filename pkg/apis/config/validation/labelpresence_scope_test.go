// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

func expressions(requirements ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: requirements}
}

func requirement(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// The README refuses opposite rules if the pods of one are all pods of the other.
func TestContradictionByImplication(t *testing.T) {
	const (
		in, notIn            = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn
		exists, doesNotExist = metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	)
	tests := []struct {
		name        string
		some, other *metav1.LabelSelector
		want        bool
	}{
		{"fewer values", expressions(requirement("x", in, "a")), expressions(requirement("x", in, "a", "b")), true},
		{"a value exists", &metav1.LabelSelector{MatchLabels: map[string]string{"x": "a"}}, expressions(requirement("x", exists)), true},
		{"a value is none of the others", expressions(requirement("x", in, "a")), expressions(requirement("x", notIn, "b")), true},
		{"more values excluded", expressions(requirement("x", notIn, "a", "b")), expressions(requirement("x", notIn, "a")), true},
		{"no label has no value", expressions(requirement("x", doesNotExist)), expressions(requirement("x", notIn, "a")), true},
		{"one requirement more", expressions(requirement("x", in, "a"), requirement("y", exists)), expressions(requirement("x", exists)), true},
		{"other values", expressions(requirement("x", in, "a", "c")), expressions(requirement("x", in, "a", "b")), false},
		{"exists is not absent", expressions(requirement("x", exists)), expressions(requirement("x", notIn, "a")), false},
		{"absent does not exist", expressions(requirement("x", notIn, "a")), expressions(requirement("x", exists)), false},
		{"other labels", expressions(requirement("x", in, "a")), expressions(requirement("y", exists)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []reported
			if tt.want {
				want = []reported{{field.ErrorTypeInvalid, "rules[1].labels[0]"}}
			}
			for _, selectors := range [][2]*metav1.LabelSelector{{tt.some, tt.other}, {tt.other, tt.some}} {
				byPod, byNamespace := twoRules(), twoRules()
				for i := range selectors {
					byPod.Rules[i].PodSelector = selectors[i]
					byNamespace.Rules[i].NamespaceSelector = selectors[i]
				}
				for _, args := range []*config.LabelPresenceArgs{byPod, byNamespace} {
					if diff := cmp.Diff(want, reportedBy(t, ValidateLabelPresenceArgs(nil, args))); diff != "" {
						t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
					}
				}
			}
		})
	}
}

// A selector that matches nothing makes a rule that never applies.
func TestUnmatchableSelector(t *testing.T) {
	const (
		in, notIn            = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn
		exists, doesNotExist = metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	)
	tests := []struct {
		name     string
		selector *metav1.LabelSelector
		want     bool
	}{
		{"values apart", expressions(requirement("x", in, "a"), requirement("x", in, "b", "c")), true},
		{"a value of no label", &metav1.LabelSelector{
			MatchLabels:      map[string]string{"x": "a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{requirement("x", doesNotExist)},
		}, true},
		{"there and not there", expressions(requirement("x", exists), requirement("x", doesNotExist)), true},
		{"all values excluded", expressions(requirement("x", in, "a", "b"), requirement("x", notIn, "a"), requirement("x", notIn, "b")), true},
		{"some values excluded", expressions(requirement("x", in, "a", "b"), requirement("x", notIn, "a")), false},
		{"absent twice", expressions(requirement("x", doesNotExist), requirement("x", notIn, "a")), false},
		{"an empty value", expressions(requirement("x", in, ""), requirement("x", exists)), false},
		{"different labels", expressions(requirement("x", exists), requirement("y", doesNotExist)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []reported
			if tt.want {
				want = []reported{{field.ErrorTypeInvalid, "rules[0].podSelector"}, {field.ErrorTypeInvalid, "rules[0].namespaceSelector"}}
			}
			args := twoRules()
			args.Rules = args.Rules[:1]
			args.Rules[0].PodSelector, args.Rules[0].NamespaceSelector = tt.selector, tt.selector
			if diff := cmp.Diff(want, reportedBy(t, ValidateLabelPresenceArgs(nil, args))); diff != "" {
				t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
			}
		})
	}
}

// twoRules returns opposite rules about one label.
func twoRules() *config.LabelPresenceArgs {
	return &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt, Rules: []config.LabelPresenceRule{
		{Labels: []string{"l"}, Presence: ptr.To(true)},
		{Labels: []string{"l"}, Presence: ptr.To(false)},
	}}
}

// labelSets returns every set of labels x and y with each of the values or
// without the label. The value "other" is in no selector: it stands for all the
// values that a selector does not list.
func labelSets() []labels.Set {
	var all []labels.Set
	values := []string{"", "a", "b", "c", "other"}
	for x := -1; x < len(values); x++ {
		for y := -1; y < len(values); y++ {
			set := labels.Set{}
			if x >= 0 {
				set["x"] = values[x]
			}
			if y >= 0 {
				set["y"] = values[y]
			}
			all = append(all, set)
		}
	}
	return all
}

func randomSelector(random *rand.Rand) *metav1.LabelSelector {
	values, keys := []string{"", "a", "b", "c"}, []string{"x", "y"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for range random.IntN(4) {
		key := keys[random.IntN(len(keys))]
		var some []string
		for range 1 + random.IntN(3) {
			some = append(some, values[random.IntN(len(values))])
		}
		switch random.IntN(5) {
		case 0:
			selector.MatchLabels[key] = some[0]
		case 1:
			selector.MatchExpressions = append(selector.MatchExpressions, requirement(key, metav1.LabelSelectorOpIn, some...))
		case 2:
			selector.MatchExpressions = append(selector.MatchExpressions, requirement(key, metav1.LabelSelectorOpNotIn, some...))
		case 3:
			selector.MatchExpressions = append(selector.MatchExpressions, requirement(key, metav1.LabelSelectorOpExists))
		case 4:
			selector.MatchExpressions = append(selector.MatchExpressions, requirement(key, metav1.LabelSelectorOpDoesNotExist))
		}
	}
	return selector
}

// matches returns which of the sets the selector matches, by Kubernetes' own
// matching.
func matches(t *testing.T, selector *metav1.LabelSelector, all []labels.Set) []bool {
	t.Helper()
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	matched := make([]bool, len(all))
	for i, set := range all {
		matched[i] = matcher.Matches(set)
	}
	return matched
}

// Against brute force: one scope is within another exactly if every set of labels
// that the first matches, the second does; and scopes are equal text exactly if
// they match the same. A selector that matches nothing is within all, which
// scopes need not see: it is found by itself.
func TestScopeAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := labelSets()
	nested, equal := 0, 0
	for range 10000 {
		one, two := randomSelector(random), randomSelector(random)
		oneMatches, twoMatches := matches(t, one, all), matches(t, two, all)
		wantWithin, oneEmpty, twoEmpty := true, true, true
		for i := range all {
			wantWithin = wantWithin && (!oneMatches[i] || twoMatches[i])
			oneEmpty, twoEmpty = oneEmpty && !oneMatches[i], twoEmpty && !twoMatches[i]
		}
		if got := len(unmatchable(one)) > 0; got != oneEmpty {
			t.Fatalf("want unmatchable %t, got %t\n%v", oneEmpty, got, one)
		}
		oneScope, twoScope := scopeOf(&config.LabelPresenceRule{PodSelector: one}), scopeOf(&config.LabelPresenceRule{PodSelector: two})
		within := oneScope.within(twoScope)
		if within && !wantWithin || within != wantWithin && !oneEmpty {
			t.Fatalf("want within %t, got %t\n%v\n%v", wantWithin, within, one, two)
		}
		same := oneScope.String() == twoScope.String()
		if want := slices.Equal(oneMatches, twoMatches); same && !want || same != want && !oneEmpty && !twoEmpty {
			t.Fatalf("want equal %t, got %t\n%v\n%v", want, same, one, two)
		}
		if within && !oneEmpty {
			nested++
		}
		if same && !oneEmpty {
			equal++
		}
	}
	if nested < 500 || equal < 100 {
		t.Errorf("want many cases of both, got %d within and %d equal", nested, equal)
	}
}
