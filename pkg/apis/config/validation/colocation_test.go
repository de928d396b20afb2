// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

func validColocationArgs() config.ColocationArgs {
	return config.ColocationArgs{
		TopologyKeys: []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"},
	}
}

func nearService(name string) config.ColocationRule {
	return config.ColocationRule{Services: []config.ColocationService{{Name: name, Weight: 1}}, Weight: 1}
}

func TestValidateColocationArgs(t *testing.T) {
	withRules := func(rules ...config.ColocationRule) func(*config.ColocationArgs) {
		return func(a *config.ColocationArgs) { a.Rules = rules }
	}
	keys := func(n int) []string {
		var list []string
		for i := range n {
			list = append(list, "example.com/level-"+strconv.Itoa(i))
		}
		return list
	}
	tests := []struct {
		name   string
		change func(*config.ColocationArgs)
		want   []reported
	}{
		{name: "defaults", change: func(*config.ColocationArgs) {}},
		{
			name: "every field",
			change: func(a *config.ColocationArgs) {
				a.TopologyKeys = keys(8)
				a.Rules = []config.ColocationRule{{
					PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}},
					Services:          []config.ColocationService{{Name: "backend", Weight: 100}, {Name: "other/backend", Weight: 1}},
					TopologyKeys:      []string{"example.com/rack"}, RequiredTopologyKey: "topology.kubernetes.io/region",
					Weight: 100,
				}}
			},
		},
		{name: "no levels", change: func(a *config.ColocationArgs) { a.TopologyKeys = []string{} }, want: []reported{{field.ErrorTypeRequired, "args.topologyKeys"}}},
		{
			name:   "levels",
			change: func(a *config.ColocationArgs) { a.TopologyKeys = []string{"a b", "", "x", "x"} },
			want: []reported{
				{field.ErrorTypeInvalid, "args.topologyKeys[0]"},
				{field.ErrorTypeRequired, "args.topologyKeys[1]"},
				{field.ErrorTypeDuplicate, "args.topologyKeys[3]"},
			},
		},
		{name: "too many levels", change: func(a *config.ColocationArgs) { a.TopologyKeys = keys(9) }, want: []reported{{field.ErrorTypeTooMany, "args.topologyKeys"}}},
		{
			name: "too many rules", change: withRules(slices.Repeat([]config.ColocationRule{nearService("a")}, 1001)...),
			want: []reported{{field.ErrorTypeTooMany, "args.rules"}},
		},
		{
			name:   "a rule that does nothing",
			change: withRules(config.ColocationRule{Weight: 1, TopologyKeys: []string{"x"}, RequiredTopologyKey: "x"}),
			want:   []reported{{field.ErrorTypeRequired, "args.rules[0].services"}},
		},
		{
			name: "fields of before",
			change: func(a *config.ColocationArgs) {
				a.Prefer, a.FirstPodPolicy, a.NodeSearch = []string{"x"}, "Wait", "Sampled"
				rule := nearService("a")
				rule.Prefer, rule.RequireWithin, rule.MaxPerNode = []string{"x"}, "x", 1
				a.Rules = []config.ColocationRule{rule}
			},
			want: []reported{
				{field.ErrorTypeForbidden, "args.prefer"},
				{field.ErrorTypeForbidden, "args.firstPodPolicy"},
				{field.ErrorTypeForbidden, "args.nodeSearch"},
				{field.ErrorTypeForbidden, "args.rules[0].prefer"},
				{field.ErrorTypeForbidden, "args.rules[0].requireWithin"},
				{field.ErrorTypeForbidden, "args.rules[0].maxPerNode"},
			},
		},
		{
			name:   "weights",
			change: withRules(config.ColocationRule{Services: []config.ColocationService{{Name: "a"}, {Name: "b", Weight: 101}}, Weight: -1}),
			want: []reported{
				{field.ErrorTypeInvalid, "args.rules[0].services[0].weight"},
				{field.ErrorTypeInvalid, "args.rules[0].services[1].weight"},
				{field.ErrorTypeInvalid, "args.rules[0].weight"},
			},
		},
		{
			name: "names of Services",
			change: withRules(config.ColocationRule{Weight: 1, Services: []config.ColocationService{
				{Name: "", Weight: 1},
				{Name: "Backend", Weight: 1},
				{Name: "a/b/c", Weight: 1},
				{Name: "/b", Weight: 1},
				{Name: "a/", Weight: 1},
				{Name: "b.c", Weight: 1},
				{Name: strings.Repeat("b", 64), Weight: 1},
				{Name: "b", Weight: 1},
				{Name: "b", Weight: 1},
			}}),
			want: []reported{
				{field.ErrorTypeRequired, "args.rules[0].services[0].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[1].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[2].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[3].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[4].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[5].name"},
				{field.ErrorTypeInvalid, "args.rules[0].services[6].name"},
				{field.ErrorTypeDuplicate, "args.rules[0].services[8].name"},
			},
		},
		{
			name: "too many Services",
			change: withRules(config.ColocationRule{
				Weight: 1, Services: slices.Repeat([]config.ColocationService{{Name: "a", Weight: 1}}, 33),
			}),
			want: []reported{{field.ErrorTypeTooMany, "args.rules[0].services"}},
		},
		{
			name: "selectors, and levels of a rule",
			change: withRules(config.ColocationRule{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}},
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"a": "b"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpDoesNotExist}},
				},
				Services:     []config.ColocationService{{Name: "a", Weight: 1}},
				TopologyKeys: []string{"a/b/c"}, RequiredTopologyKey: "a b", Weight: 1,
			}),
			want: []reported{
				{field.ErrorTypeInvalid, "args.rules[0].podSelector.matchLabels"},
				{field.ErrorTypeInvalid, "args.rules[0].namespaceSelector"},
				{field.ErrorTypeInvalid, "args.rules[0].topologyKeys[0]"},
				{field.ErrorTypeInvalid, "args.rules[0].requiredTopologyKey"},
			},
		},
		{
			name:   "all at once",
			change: func(a *config.ColocationArgs) { *a = config.ColocationArgs{Rules: []config.ColocationRule{{}}} },
			want: []reported{
				{field.ErrorTypeRequired, "args.topologyKeys"},
				{field.ErrorTypeInvalid, "args.rules[0].weight"},
				{field.ErrorTypeRequired, "args.rules[0].services"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := validColocationArgs()
			tt.change(&args)
			checkReported(t, ValidateColocationArgs, &args, tt.want)
		})
	}
}

// What a user reads must name the way out.
func TestValidateColocationArgsMessages(t *testing.T) {
	args := validColocationArgs()
	args.Rules = []config.ColocationRule{{
		Weight: 1, Services: []config.ColocationService{{Name: "Shop/backend", Weight: 1}, {Name: "a", Weight: 1}, {Name: "a", Weight: 200}},
	}}
	err := ValidateColocationArgs(field.NewPath("ColocationArgs"), &args)
	checkMessages(t, err, []string{
		`ColocationArgs.rules[0].services[0].name: Invalid value: "Shop/backend": namespace: a lowercase RFC 1123 label must consist of`,
		`ColocationArgs.rules[0].services[2].name: Duplicate value: "a": ColocationArgs.rules[0].services[1] already names it: add up the weights`,
		"ColocationArgs.rules[0].services[2].weight: Invalid value: 200: must be between 1 and 100",
	})
}
