// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// Bounds of a preference's weight.
const (
	minPreferenceWeight = 1
	maxPreferenceWeight = 100
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
	var errs field.ErrorList
	for i := range rules {
		rulePath := path.Index(i)
		errs = append(errs, validateLabelPresenceRule(rulePath, &rules[i])...)
		// Against the earlier ones, so that each pair is reported once, at the
		// later rule.
		for j := range i {
			errs = append(errs, validateRulePair(rulePath, &rules[i], path.Index(j), &rules[j])...)
		}
	}
	return errs
}

func validateLabelPresenceRule(path *field.Path, rule *config.LabelPresenceRule) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Labels) == 0 {
		errs = append(errs, field.Required(path.Child("labels"), "name at least one label key"))
	}
	for i, key := range rule.Labels {
		keyPath := path.Child("labels").Index(i)
		errs = append(errs, validateLabelKey(keyPath, key)...)
		if slices.Contains(rule.Labels[:i], key) {
			errs = append(errs, field.Duplicate(keyPath, key))
		}
	}
	errs = append(errs, validatePresence(path.Child("presence"), rule.Presence)...)
	opts := metav1validation.LabelSelectorValidationOptions{}
	errs = append(errs, metav1validation.ValidateLabelSelector(rule.PodSelector, opts, path.Child("podSelector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(rule.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
	return errs
}

// validateRulePair compares rule with an earlier one. Two rules contradict each
// other if one requires a label that the other forbids and every pod of one is
// a pod of the other: those pods would fit nowhere. Rules whose selectors merely
// may overlap are left alone, because whether a pod matches both is not ours to
// know.
func validateRulePair(path *field.Path, rule *config.LabelPresenceRule, otherPath *field.Path, other *config.LabelPresenceRule) field.ErrorList {
	if rule.Presence == nil || other.Presence == nil {
		return nil
	}
	scope, otherScope := scopeOf(rule), scopeOf(other)
	if *rule.Presence == *other.Presence {
		if len(rule.Labels) > 0 && scope.Equal(otherScope) && sets.New(rule.Labels...).Equal(sets.New(other.Labels...)) {
			err := field.Duplicate(path, rule.Labels)
			err.Detail = fmt.Sprintf("says the same as %s", otherPath)
			return field.ErrorList{err}
		}
		return nil
	}
	if !scope.IsSuperset(otherScope) && !otherScope.IsSuperset(scope) {
		return nil
	}
	var errs field.ErrorList
	for i, key := range rule.Labels {
		j := slices.Index(other.Labels, key)
		if j < 0 {
			continue
		}
		errs = append(errs, field.Invalid(path.Child("labels").Index(i), key, fmt.Sprintf(
			"contradicts %s: one rule requires the label, the other forbids it, and pods that both apply to would fit on no node",
			otherPath.Child("labels").Index(j))))
	}
	return errs
}

func validateLabelPresencePreferences(path *field.Path, preferences []config.LabelPresencePreference) field.ErrorList {
	var errs field.ErrorList
	for i, preference := range preferences {
		itemPath := path.Index(i)
		if preference.Label == "" {
			errs = append(errs, field.Required(itemPath.Child("label"), "name a label key"))
		} else {
			errs = append(errs, validateLabelKey(itemPath.Child("label"), preference.Label)...)
		}
		errs = append(errs, validatePresence(itemPath.Child("presence"), preference.Presence)...)
		if preference.Weight < minPreferenceWeight || preference.Weight > maxPreferenceWeight {
			errs = append(errs, field.Invalid(itemPath.Child("weight"), preference.Weight,
				fmt.Sprintf("must be between %d and %d", minPreferenceWeight, maxPreferenceWeight)))
		}
		// One preference per label. A second one with the other presence only
		// takes weight away from the first, which one number says more clearly.
		earlier := slices.IndexFunc(preferences[:i], func(p config.LabelPresencePreference) bool {
			return p.Label == preference.Label && p.Label != ""
		})
		if earlier >= 0 {
			err := field.Duplicate(itemPath.Child("label"), preference.Label)
			err.Detail = fmt.Sprintf("%s already says whether the label is preferred", path.Index(earlier))
			errs = append(errs, err)
		}
	}
	return errs
}

func validateLabelPresenceTenancy(path *field.Path, tenancy *config.LabelPresenceTenancy) field.ErrorList {
	var errs field.ErrorList
	keys := []struct{ name, value string }{
		{"nodeLabelKey", tenancy.NodeLabelKey},
		{"namespaceLabelKey", tenancy.NamespaceLabelKey},
	}
	for _, key := range keys {
		if key.value == "" {
			errs = append(errs, field.Required(path.Child(key.name), "name the label key whose value is the tenant"))
			continue
		}
		errs = append(errs, validateLabelKey(path.Child(key.name), key.value)...)
	}
	errs = append(errs, validateEnum(path.Child("tenants"), tenancy.Tenants, config.TenantsConfined, config.TenantsFree)...)
	for i, namespace := range tenancy.ExemptNamespaces {
		namespacePath := path.Child("exemptNamespaces").Index(i)
		for _, msg := range utilvalidation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(namespacePath, namespace, msg))
		}
		if slices.Contains(tenancy.ExemptNamespaces[:i], namespace) {
			errs = append(errs, field.Duplicate(namespacePath, namespace))
		}
	}
	return errs
}

// validateRulesAgainstTenancy refuses a rule that keeps every pod off every
// dedicated node: the tenants' own pods would fit nowhere.
func validateRulesAgainstTenancy(path *field.Path, args *config.LabelPresenceArgs) field.ErrorList {
	var errs field.ErrorList
	for i := range args.Rules {
		rule := &args.Rules[i]
		if rule.Presence == nil || *rule.Presence || scopeOf(rule).Len() > 0 || args.Tenancy.NodeLabelKey == "" {
			continue
		}
		if j := slices.Index(rule.Labels, args.Tenancy.NodeLabelKey); j >= 0 {
			errs = append(errs, field.Invalid(path.Child("rules").Index(i).Child("labels").Index(j), rule.Labels[j],
				fmt.Sprintf("contradicts %s: the rule keeps all pods off the nodes that carry the label, the tenants' own pods too",
					path.Child("tenancy", "nodeLabelKey"))))
		}
	}
	return errs
}

func validateLabelKey(path *field.Path, key string) field.ErrorList {
	return metav1validation.ValidateLabelName(key, path)
}

func validatePresence(path *field.Path, presence *bool) field.ErrorList {
	if presence == nil {
		return field.ErrorList{field.Required(path, "must be true (the node carries the label) or false (it does not)")}
	}
	return nil
}
