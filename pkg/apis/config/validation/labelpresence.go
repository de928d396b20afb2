// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// Bounds of a preference's weight.
const (
	minPreferenceWeight = 1
	maxPreferenceWeight = 100
)

// Bounds of the lists. They are far above what is maintained by hand, and
// keep validation, which compares rules in pairs, within a second or two. The
// bounds on a selector count its requirements, and all values of its expressions.
const (
	maxRules                = 1000
	maxLabelsPerRule        = 64
	maxSelectorRequirements = 64
	maxSelectorValues       = 256
	maxPreferences          = 1000
	maxExemptNamespaces     = 10000
)

// ValidateLabelPresenceArgs returns every error in args as one aggregate, or
// nil. Beyond the single fields it refuses rules that no node can satisfy, and
// arguments with which the plugin would do nothing.
func ValidateLabelPresenceArgs(path *field.Path, args *config.LabelPresenceArgs) error {
	var errs field.ErrorList
	if len(args.Rules) == 0 && len(args.Preferences) == 0 && args.Tenancy == nil {
		errs = append(errs, field.Required(path, "set at least one of rules, preferences and tenancy, or do not enable the plugin"))
	}
	errs = append(errs, validateLabelPresenceRules(path.Child("rules"), args.Rules)...)
	errs = append(errs, validateLabelPresencePreferences(path.Child("preferences"), args.Preferences)...)
	if args.Tenancy != nil {
		errs = append(errs, validateLabelPresenceTenancy(path.Child("tenancy"), args.Tenancy)...)
		errs = append(errs, validateRulesAgainstTenancy(path, args)...)
	}
	errs = append(errs, validateEnum(path.Child("daemonSets"), args.DaemonSets, config.DaemonSetsExempt, config.DaemonSetsEnforce)...)
	return errs.ToAggregate()
}

func validateLabelPresenceRules(path *field.Path, rules []config.LabelPresenceRule) field.ErrorList {
	if errs := tooMany(path, len(rules), maxRules); errs != nil {
		return errs
	}
	var errs field.ErrorList
	pairs := newRulePairs(path, len(rules))
	for i := range rules {
		ruleErrs, valid := validateLabelPresenceRule(path.Index(i), &rules[i])
		errs = append(errs, ruleErrs...)
		if valid {
			errs = append(errs, pairs.add(i, &rules[i])...)
		}
	}
	return errs
}

// validateLabelPresenceRule also says whether the rule can be compared with
// others: not if it lacks a presence, is too long, or has a wrong selector, all
// of which have an error of their own.
func validateLabelPresenceRule(path *field.Path, rule *config.LabelPresenceRule) (errs field.ErrorList, canCompare bool) {
	labelsPath := path.Child("labels")
	labelErrs, labelsInBounds := validateRuleLabels(labelsPath, rule.Labels)
	errs = append(errs, labelErrs...)
	errs = append(errs, validatePresence(path.Child("presence"), rule.Presence)...)
	selectorErrs := validateRuleSelector(path.Child("podSelector"), rule.PodSelector)
	selectorErrs = append(selectorErrs, validateRuleSelector(path.Child("namespaceSelector"), rule.NamespaceSelector)...)
	return append(errs, selectorErrs...), labelsInBounds && rule.Presence != nil && len(selectorErrs) == 0
}

func validateRuleLabels(path *field.Path, labels []string) (errs field.ErrorList, inBounds bool) {
	if len(labels) == 0 {
		return field.ErrorList{field.Required(path, "name at least one label key")}, true
	}
	if errs := tooMany(path, len(labels), maxLabelsPerRule); errs != nil {
		return errs, false
	}
	keys := seen{}
	for i, key := range labels {
		errs = append(errs, validateLabelKey(path.Index(i), key, "")...)
		errs = append(errs, keys.repeated(path.Index(i), nil, key, "")...)
	}
	return errs, true
}

func validateRuleSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	if n := len(selector.MatchLabels) + len(selector.MatchExpressions); n > maxSelectorRequirements {
		err := field.TooMany(path, n, maxSelectorRequirements)
		err.Detail += " of matchLabels and matchExpressions together"
		return field.ErrorList{err}
	}
	values := 0
	for i := range selector.MatchExpressions {
		values += len(selector.MatchExpressions[i].Values)
	}
	if values > maxSelectorValues {
		err := field.TooMany(path.Child("matchExpressions"), values, maxSelectorValues)
		err.Detail += " of all values together"
		return field.ErrorList{err}
	}
	errs := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	if len(errs) > 0 {
		return errs
	}
	for _, key := range unmatchable(selector) {
		errs = append(errs, field.Invalid(path, metav1.FormatLabelSelector(selector), fmt.Sprintf(
			"matches nothing, because its requirements on label %q contradict each other: the rule would never apply", key)))
	}
	return errs
}

func validateLabelPresencePreferences(path *field.Path, preferences []config.LabelPresencePreference) field.ErrorList {
	if errs := tooMany(path, len(preferences), maxPreferences); errs != nil {
		return errs
	}
	var errs field.ErrorList
	labels := seen{}
	for i, preference := range preferences {
		itemPath := path.Index(i)
		errs = append(errs, validateLabelKey(itemPath.Child("label"), preference.Label, "name a label key")...)
		errs = append(errs, validatePresence(itemPath.Child("presence"), preference.Presence)...)
		errs = append(errs, validateBetween(itemPath.Child("weight"), preference.Weight, minPreferenceWeight, maxPreferenceWeight)...)
		// One preference per label. A second one with the other presence only
		// takes weight away from the first, which one number says more clearly.
		if preference.Label != "" {
			errs = append(errs, labels.repeated(itemPath.Child("label"), itemPath, preference.Label, "already says whether the label is preferred")...)
		}
	}
	return errs
}

func validateLabelPresenceTenancy(path *field.Path, tenancy *config.LabelPresenceTenancy) field.ErrorList {
	const missing = "name the label key whose value is the tenant"
	errs := validateLabelKey(path.Child("nodeLabelKey"), tenancy.NodeLabelKey, missing)
	errs = append(errs, validateLabelKey(path.Child("namespaceLabelKey"), tenancy.NamespaceLabelKey, missing)...)
	if key := tenancy.NodeLabelKey; key != "" && !tenancy.AllowUnrestrictedNodeLabelKey && !isNodeRestricted(key) {
		errs = append(errs, field.Invalid(path.Child("nodeLabelKey"), key, fmt.Sprintf(
			"a kubelet may set this label on its own node, and so choose the node's tenant: use a key under %s, or accept it with allowUnrestrictedNodeLabelKey: true",
			corev1.LabelNamespaceNodeRestriction)))
	}
	errs = append(errs, validateLabelKey(path.Child("nodeTaintKey"), tenancy.NodeTaintKey,
		"name the key of the taint that keeps other schedulers off tenants' nodes: a node that has it without the label belongs to a tenant that is not known yet")...)
	errs = append(errs, validateEnum(path.Child("tenants"), tenancy.Tenants, config.TenantsConfined, config.TenantsFree)...)
	return append(errs, validateExemptNamespaces(path.Child("exemptNamespaces"), tenancy.ExemptNamespaces)...)
}

// isNodeRestricted reports whether the admission plugin NodeRestriction keeps
// kubelets from setting the label on their own nodes, by its key's prefix.
func isNodeRestricted(key string) bool {
	prefix, _, qualified := strings.Cut(key, "/")
	return qualified && (prefix == corev1.LabelNamespaceNodeRestriction || strings.HasSuffix(prefix, "."+corev1.LabelNamespaceNodeRestriction))
}

func validateExemptNamespaces(path *field.Path, namespaces []string) field.ErrorList {
	if errs := tooMany(path, len(namespaces), maxExemptNamespaces); errs != nil {
		return errs
	}
	var errs field.ErrorList
	names := seen{}
	for i, namespace := range namespaces {
		errs = append(errs, invalid(path.Index(i), namespace, utilvalidation.IsDNS1123Label(namespace))...)
		errs = append(errs, names.repeated(path.Index(i), nil, namespace, "")...)
	}
	return errs
}

// validateRulesAgainstTenancy refuses a rule that keeps every pod off every
// dedicated node: the tenants' own pods would fit nowhere.
func validateRulesAgainstTenancy(path *field.Path, args *config.LabelPresenceArgs) field.ErrorList {
	if len(args.Rules) > maxRules {
		return nil // refused, and not looked at
	}
	var errs field.ErrorList
	for i := range args.Rules {
		rule := &args.Rules[i]
		if rule.Presence == nil || *rule.Presence || !appliesToAll(rule) || args.Tenancy.NodeLabelKey == "" {
			continue
		}
		if j := slices.Index(rule.Labels, args.Tenancy.NodeLabelKey); j >= 0 {
			errs = append(errs, field.Invalid(path.Child("rules").Index(i).Child("labels").Index(j), rule.Labels[j],
				fmt.Sprintf("contradicts %s: the rule keeps all pods off the nodes that carry the label, including the tenants' own pods",
					path.Child("tenancy", "nodeLabelKey"))))
		}
	}
	return errs
}

func validatePresence(path *field.Path, presence *bool) field.ErrorList {
	if presence == nil {
		return field.ErrorList{field.Required(path, "must be true (the node carries the label) or false (it does not)")}
	}
	return nil
}
