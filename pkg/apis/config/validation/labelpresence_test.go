// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// reported is what a test expects of one error: its kind and its field. The
// wording is tested only where the text must name something else.
type reported struct {
	Type  field.ErrorType
	Field string
}

func TestValidateLabelPresenceArgs(t *testing.T) {
	rule := func(presence bool, labels ...string) config.LabelPresenceRule {
		return config.LabelPresenceRule{Labels: labels, Presence: &presence}
	}
	forPods := func(r config.LabelPresenceRule, matchLabels map[string]string) config.LabelPresenceRule {
		r.PodSelector = &metav1.LabelSelector{MatchLabels: matchLabels}
		return r
	}
	inNamespaces := func(r config.LabelPresenceRule, selector metav1.LabelSelector) config.LabelPresenceRule {
		r.NamespaceSelector = &selector
		return r
	}
	withRules := func(rules ...config.LabelPresenceRule) config.LabelPresenceArgs {
		return config.LabelPresenceArgs{Rules: rules, DaemonSets: config.DaemonSetsExempt}
	}
	withPreferences := func(preferences ...config.LabelPresencePreference) config.LabelPresenceArgs {
		return config.LabelPresenceArgs{Preferences: preferences, DaemonSets: config.DaemonSetsExempt}
	}
	withTenancy := func(change func(*config.LabelPresenceTenancy), rules ...config.LabelPresenceRule) config.LabelPresenceArgs {
		tenancy := &config.LabelPresenceTenancy{
			NodeLabelKey:      "example.node-restriction.kubernetes.io/tenant",
			NodeTaintKey:      "example.com/tenant",
			NamespaceLabelKey: "example.com/tenant",
			Tenants:           config.TenantsConfined,
			ExemptNamespaces:  []string{"kube-system"},
		}
		change(tenancy)
		return config.LabelPresenceArgs{Rules: rules, Tenancy: tenancy, DaemonSets: config.DaemonSetsExempt}
	}
	unchanged := func(*config.LabelPresenceTenancy) {}

	tests := []struct {
		name string
		args config.LabelPresenceArgs
		want []reported
	}{
		{
			name: "a rule, a preference and tenancy",
			args: config.LabelPresenceArgs{
				Rules:       []config.LabelPresenceRule{rule(true, "selectable", "example.com/a"), rule(false, "b")},
				Preferences: []config.LabelPresencePreference{{Label: "selectable", Presence: ptr.To(false), Weight: 100}},
				Tenancy:     withTenancy(unchanged).Tenancy,
				DaemonSets:  config.DaemonSetsEnforce,
			},
		},
		{
			name: "nothing to do",
			args: config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt},
			want: []reported{{field.ErrorTypeRequired, "args"}},
		},
		{
			name: "a rule without labels and presence",
			args: withRules(config.LabelPresenceRule{}),
			want: []reported{
				{field.ErrorTypeRequired, "args.rules[0].labels"},
				{field.ErrorTypeRequired, "args.rules[0].presence"},
			},
		},
		{
			name: "bad label keys, at their indexes",
			args: withRules(rule(true, "ok", "not ok", "", "a/b/c")),
			want: []reported{
				{field.ErrorTypeInvalid, "args.rules[0].labels[1]"},
				{field.ErrorTypeInvalid, "args.rules[0].labels[2]"},
				{field.ErrorTypeInvalid, "args.rules[0].labels[3]"},
			},
		},
		{
			name: "a label twice in a rule",
			args: withRules(rule(true, "a", "b", "a")),
			want: []reported{{field.ErrorTypeDuplicate, "args.rules[0].labels[2]"}},
		},
		{
			name: "bad selectors",
			args: withRules(config.LabelPresenceRule{
				Labels: []string{"a"}, Presence: ptr.To(true),
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "not ok"}},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: metav1.LabelSelectorOpIn},
					{Key: "b", Operator: "Near"},
				}},
			}),
			want: []reported{
				{field.ErrorTypeInvalid, "args.rules[0].podSelector.matchLabels"},
				{field.ErrorTypeRequired, "args.rules[0].namespaceSelector.matchExpressions[0].values"},
				{field.ErrorTypeInvalid, "args.rules[0].namespaceSelector.matchExpressions[1].operator"},
			},
		},
		{
			name: "the same rule twice, labels in another order",
			args: withRules(rule(true, "a", "b"), rule(true, "b", "a")),
			want: []reported{{field.ErrorTypeDuplicate, "args.rules[1]"}},
		},
		{
			name: "the same labels for other pods is another rule",
			args: withRules(forPods(rule(true, "a"), map[string]string{"app": "web"}), forPods(rule(true, "a"), map[string]string{"app": "db"})),
		},
		{
			name: "two rules contradict each other for all pods",
			args: withRules(rule(true, "a", "b"), rule(false, "c", "b")),
			want: []reported{{field.ErrorTypeInvalid, "args.rules[1].labels[1]"}},
		},
		{
			name: "two rules contradict each other with the same selectors, written differently",
			args: withRules(
				inNamespaces(rule(true, "a"), metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}),
				inNamespaces(rule(false, "a"), metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "x"}},
				}}),
			),
			want: []reported{{field.ErrorTypeInvalid, "args.rules[1].labels[0]"}},
		},
		{
			name: "a rule for some pods contradicts one for all pods",
			args: withRules(rule(true, "a"), forPods(rule(false, "a"), map[string]string{"app": "web"})),
			want: []reported{{field.ErrorTypeInvalid, "args.rules[1].labels[0]"}},
		},
		{
			name: "an empty selector is all pods",
			args: withRules(rule(true, "a"), forPods(rule(false, "a"), nil)),
			want: []reported{{field.ErrorTypeInvalid, "args.rules[1].labels[0]"}},
		},
		{
			name: "opposite rules for pods that may be different ones",
			args: withRules(forPods(rule(true, "a"), map[string]string{"app": "web"}), forPods(rule(false, "a"), map[string]string{"app": "db"})),
		},
		{
			name: "opposite rules, one by pod and one by namespace",
			args: withRules(
				forPods(rule(true, "a"), map[string]string{"app": "web"}),
				inNamespaces(rule(false, "a"), metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
			),
		},
		{
			name: "weights out of range",
			args: withPreferences(
				config.LabelPresencePreference{Label: "a", Presence: ptr.To(true), Weight: 0},
				config.LabelPresencePreference{Label: "b", Presence: ptr.To(true), Weight: 101},
				config.LabelPresencePreference{Label: "c", Presence: ptr.To(true), Weight: -1},
				config.LabelPresencePreference{Label: "d", Presence: ptr.To(true), Weight: 1},
			),
			want: []reported{
				{field.ErrorTypeInvalid, "args.preferences[0].weight"},
				{field.ErrorTypeInvalid, "args.preferences[1].weight"},
				{field.ErrorTypeInvalid, "args.preferences[2].weight"},
			},
		},
		{
			name: "an empty preference and a bad key",
			args: withPreferences(config.LabelPresencePreference{}, config.LabelPresencePreference{Label: "-", Presence: ptr.To(true), Weight: 1}),
			want: []reported{
				{field.ErrorTypeRequired, "args.preferences[0].label"},
				{field.ErrorTypeRequired, "args.preferences[0].presence"},
				{field.ErrorTypeInvalid, "args.preferences[0].weight"},
				{field.ErrorTypeInvalid, "args.preferences[1].label"},
			},
		},
		{
			name: "a label preferred twice, and both present and absent",
			args: withPreferences(
				config.LabelPresencePreference{Label: "a", Presence: ptr.To(true), Weight: 1},
				config.LabelPresencePreference{Label: "a", Presence: ptr.To(true), Weight: 2},
				config.LabelPresencePreference{Label: "a", Presence: ptr.To(false), Weight: 2},
			),
			want: []reported{
				{field.ErrorTypeDuplicate, "args.preferences[1].label"},
				{field.ErrorTypeDuplicate, "args.preferences[2].label"},
			},
		},
		{
			name: "tenancy without keys",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) {
				tenancy.NodeLabelKey, tenancy.NodeTaintKey, tenancy.NamespaceLabelKey = "", "", ""
			}),
			want: []reported{
				{field.ErrorTypeRequired, "args.tenancy.nodeLabelKey"},
				{field.ErrorTypeRequired, "args.tenancy.namespaceLabelKey"},
				{field.ErrorTypeRequired, "args.tenancy.nodeTaintKey"},
			},
		},
		{
			name: "a node label that a kubelet may set on its own node",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) { tenancy.NodeLabelKey = "kubernetes.io/hostname" }),
			want: []reported{{field.ErrorTypeInvalid, "args.tenancy.nodeLabelKey"}},
		},
		{
			name: "a node label whose prefix only ends like the restricted one",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) {
				tenancy.NodeLabelKey = "my-node-restriction.kubernetes.io/tenant"
			}),
			want: []reported{{field.ErrorTypeInvalid, "args.tenancy.nodeLabelKey"}},
		},
		{
			name: "a node label with the restricted prefix itself",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) {
				tenancy.NodeLabelKey = "node-restriction.kubernetes.io/tenant"
			}),
		},
		{
			name: "an unrestricted node label that is accepted",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) {
				tenancy.NodeLabelKey, tenancy.AllowUnrestrictedNodeLabelKey = "example.com/tenant", true
			}),
		},
		{
			name: "tenancy with bad values everywhere",
			args: withTenancy(func(tenancy *config.LabelPresenceTenancy) {
				tenancy.NodeLabelKey, tenancy.NodeTaintKey, tenancy.NamespaceLabelKey = "a b", "d e", "/c"
				tenancy.Tenants = "confined"
				tenancy.ExemptNamespaces = []string{"kube-system", "Not_A_Name", "kube-system", ""}
			}),
			want: []reported{
				{field.ErrorTypeInvalid, "args.tenancy.nodeLabelKey"},
				{field.ErrorTypeInvalid, "args.tenancy.namespaceLabelKey"},
				{field.ErrorTypeInvalid, "args.tenancy.nodeLabelKey"},
				{field.ErrorTypeInvalid, "args.tenancy.nodeTaintKey"},
				{field.ErrorTypeNotSupported, "args.tenancy.tenants"},
				{field.ErrorTypeInvalid, "args.tenancy.exemptNamespaces[1]"},
				{field.ErrorTypeDuplicate, "args.tenancy.exemptNamespaces[2]"},
				{field.ErrorTypeInvalid, "args.tenancy.exemptNamespaces[3]"},
			},
		},
		{
			name: "a rule keeps all pods off all dedicated nodes",
			args: withTenancy(unchanged, rule(false, "a", "example.node-restriction.kubernetes.io/tenant")),
			want: []reported{{field.ErrorTypeInvalid, "args.rules[0].labels[1]"}},
		},
		{
			name: "a rule keeps some pods off all dedicated nodes",
			args: withTenancy(unchanged, forPods(rule(false, "example.node-restriction.kubernetes.io/tenant"), map[string]string{"app": "web"})),
		},
		{
			name: "a rule keeps all pods on dedicated nodes",
			args: withTenancy(unchanged, rule(true, "example.node-restriction.kubernetes.io/tenant")),
		},
		{
			name: "an unknown way to treat DaemonSets",
			args: config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{rule(true, "a")}, DaemonSets: "Ignore"},
			want: []reported{{field.ErrorTypeNotSupported, "args.daemonSets"}},
		},
		{
			name: "errors in every part at once",
			args: config.LabelPresenceArgs{
				Rules:       []config.LabelPresenceRule{rule(true)},
				Preferences: []config.LabelPresencePreference{{Label: "a", Presence: ptr.To(true)}},
				Tenancy:     &config.LabelPresenceTenancy{NodeLabelKey: "node-restriction.kubernetes.io/a", NodeTaintKey: "c", NamespaceLabelKey: "b"},
			},
			want: []reported{
				{field.ErrorTypeRequired, "args.rules[0].labels"},
				{field.ErrorTypeInvalid, "args.preferences[0].weight"},
				{field.ErrorTypeNotSupported, "args.tenancy.tenants"},
				{field.ErrorTypeNotSupported, "args.daemonSets"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkReported(t, ValidateLabelPresenceArgs, &tt.args, tt.want)
		})
	}
}

// checkReported validates args as the field args, and compares what is reported.
func checkReported[T runtime.Object](t *testing.T, validate func(*field.Path, T) error, args T, want []reported) {
	t.Helper()
	before := args.DeepCopyObject()
	got := reportedBy(t, validate(field.NewPath("args"), args))
	// Several errors may concern one field, with different words.
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(before, runtime.Object(args)); diff != "" {
		t.Errorf("Validation changed the args (-before,+after):\n%s", diff)
	}
}

// checkMessages looks for texts in an error.
func checkMessages(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("want an error, got none")
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("want %q in the error, got: %v", text, err)
		}
	}
}

func reportedBy(t *testing.T, err error) []reported {
	t.Helper()
	if err == nil {
		return nil
	}
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		t.Fatalf("want an aggregate of field errors, got %T: %v", err, err)
	}
	var got []reported
	for _, one := range aggregate.Errors() {
		var fieldErr *field.Error
		if !errors.As(one, &fieldErr) {
			t.Fatalf("want a field error, got %T: %v", one, one)
		}
		got = append(got, reported{fieldErr.Type, fieldErr.Field})
	}
	return got
}

// What a user reads must name the other rule or the values to choose from.
func TestValidateLabelPresenceArgsMessages(t *testing.T) {
	tests := []struct {
		name string
		args config.LabelPresenceArgs
		want string
	}{
		{
			name: "presence",
			args: config.LabelPresenceArgs{
				Rules:      []config.LabelPresenceRule{{Labels: []string{"a"}}},
				DaemonSets: config.DaemonSetsExempt,
			},
			want: `LabelPresenceArgs.rules[0].presence: Required value: must be true (the node carries the label) or false (it does not)`,
		},
		{
			name: "contradiction",
			args: config.LabelPresenceArgs{
				Rules: []config.LabelPresenceRule{
					{Labels: []string{"a"}, Presence: ptr.To(true)},
					{Labels: []string{"b", "a"}, Presence: ptr.To(false)},
				},
				DaemonSets: config.DaemonSetsExempt,
			},
			want: `LabelPresenceArgs.rules[1].labels[1]: Invalid value: "a": contradicts LabelPresenceArgs.rules[0].labels[0]: one rule requires the label, the other forbids it, and pods that both apply to would fit on no node`,
		},
		{
			name: "duplicate rule",
			args: config.LabelPresenceArgs{
				Rules: []config.LabelPresenceRule{
					{Labels: []string{"a"}, Presence: ptr.To(true)},
					{Labels: []string{"a"}, Presence: ptr.To(true)},
				},
				DaemonSets: config.DaemonSetsExempt,
			},
			want: `LabelPresenceArgs.rules[1]: Duplicate value: ["a"]: says the same as LabelPresenceArgs.rules[0]`,
		},
		{
			name: "enum",
			args: config.LabelPresenceArgs{
				Rules:      []config.LabelPresenceRule{{Labels: []string{"a"}, Presence: ptr.To(true)}},
				DaemonSets: "Skip",
			},
			want: `LabelPresenceArgs.daemonSets: Unsupported value: "Skip": supported values: "Exempt", "Enforce"`,
		},
		{
			name: "nothing to do",
			args: config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt},
			want: `LabelPresenceArgs: Required value: set at least one of rules, preferences and tenancy, or do not enable the plugin`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := ValidateLabelPresenceArgs(field.NewPath("LabelPresenceArgs"), &tt.args)
			if err == nil {
				t.Fatal("want an error, got none")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("Unexpected message (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestValidateLabelPresenceArgsWithoutPath(t *testing.T) {
	err := ValidateLabelPresenceArgs(nil, &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{{}}, DaemonSets: config.DaemonSetsExempt})
	want := []reported{{field.ErrorTypeRequired, "rules[0].labels"}, {field.ErrorTypeRequired, "rules[0].presence"}}
	if diff := cmp.Diff(want, reportedBy(t, err)); diff != "" {
		t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
	}
}
