// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// gapOfPolicy says what a policy of the cluster lets by that the shipped one refuses or
// changes; the message is empty if nothing.
func (c *checker) gapOfPolicy(feature *guarded, user *runningScheduler, found, shipped *policy) (field, message string) {
	if ptr.Deref(found.failure, admissionv1.Fail) != admissionv1.Fail {
		return "spec.failurePolicy", fmt.Sprintf("is %s: what the policy cannot evaluate is admitted", *found.failure)
	}
	for _, condition := range found.conditions {
		if !slices.ContainsFunc(shipped.conditions, func(other admissionv1.MatchCondition) bool { return other.Name == condition.Name }) {
			return "spec.matchConditions", fmt.Sprintf("%q is not a condition of this policy: what it leaves out is admitted", condition.Name)
		}
	}
	if left := leftOut(found.match, rulesOf(shipped.match)); left != "" {
		return "spec.matchConstraints.resourceRules", "leave out " + left
	}
	if field, message = c.gapOfSelectors(feature, user, found.match, nil); message != "" {
		return "spec.matchConstraints." + field, message
	}
	return "", ""
}

// gapOfBinding says what a binding leaves out that the policy is for.
func (c *checker) gapOfBinding(feature *guarded, user *runningScheduler, found *binding, shipped *policies, key policyKey) (field, message string) {
	if !slices.Contains(found.actions, admissionv1.Deny) {
		return "spec.validationActions", fmt.Sprintf("are %v, without Deny: requests that the policy should reject are admitted", found.actions)
	}
	var of *admissionv1.MatchResources // as shipped
	if bound := shipped.bindings[key]; len(bound) > 0 {
		of = bound[0].match
	}
	rules := rulesOf(shipped.policies[key].match)
	if found.match != nil && (len(found.match.ResourceRules) > 0 || len(found.match.ExcludeResourceRules) > 0) {
		if left := leftOut(found.match, rules); left != "" {
			return "spec.matchResources.resourceRules", "leave out " + left
		}
	}
	if field, message = c.gapOfSelectors(feature, user, found.match, of); message != "" {
		return "spec.matchResources." + field, message
	}
	return "", ""
}

func rulesOf(match *admissionv1.MatchResources) []admissionv1.NamedRuleWithOperations {
	if match == nil {
		return nil
	}
	return match.ResourceRules
}

// leftOut names the first request that rules match and match does not; without rules of its
// own it matches all.
func leftOut(match *admissionv1.MatchResources, rules []admissionv1.NamedRuleWithOperations) string {
	if match == nil {
		return ""
	}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, operation := range rule.Operations {
					if len(match.ResourceRules) > 0 && !covers(match.ResourceRules, group, resource, operation) || covers(match.ExcludeResourceRules, group, resource, operation) {
						return fmt.Sprintf("%s of %s: requests that the policy should reject are admitted", operation, resource)
					}
				}
			}
		}
	}
	return ""
}

// covers reports whether one of the rules matches such a request, whatever its name.
func covers(rules []admissionv1.NamedRuleWithOperations, group, resource string, operation admissionv1.OperationType) bool {
	parent, subresource, _ := strings.Cut(resource, "/")
	resources := []string{"*/*", resource, parent + "/*"}
	if subresource != "" {
		resources = append(resources, "*/"+subresource)
	} else {
		resources = append(resources, "*") // of no subresource
	}
	return slices.ContainsFunc(rules, func(rule admissionv1.NamedRuleWithOperations) bool {
		return len(rule.ResourceNames) == 0 &&
			hasOne(rule.APIGroups, "*", group) && hasOne(rule.Resources, resources...) && hasOne(rule.Operations, admissionv1.OperationAll, operation)
	})
}

func hasOne[T comparable](list []T, values ...T) bool {
	return slices.ContainsFunc(values, func(value T) bool { return slices.Contains(list, value) })
}

// gapOfSelectors finds an object, or a namespace, that selectors leave out and that the
// feature is about. shipped are those of the manifests, which may leave out some.
func (c *checker) gapOfSelectors(feature *guarded, user *runningScheduler, found, shipped *admissionv1.MatchResources) (field, message string) {
	if found == nil {
		return "", ""
	}
	if s := found.ObjectSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return "objectSelector", metav1.FormatLabelSelector(s) + " leaves out objects by their labels, which their authors write"
	}
	selector, err := metav1.LabelSelectorAsSelector(found.NamespaceSelector)
	if err != nil || found.NamespaceSelector == nil {
		return "", "" // the API server has refused one that is not valid
	}
	for _, namespace := range c.covered(feature, user, shipped) {
		if !selector.Matches(labels.Set(namespace.Labels)) {
			return "namespaceSelector", fmt.Sprintf("%s leaves out %s: requests that the policy should reject are admitted there", metav1.FormatLabelSelector(found.NamespaceSelector), namespace.Name)
		}
	}
	return "", ""
}

// covered are the namespaces that a policy must cover: where the shipped binding is for one
// namespace, that of the scheduler; otherwise all that the profile does not exempt, and such
// as may be created.
func (c *checker) covered(feature *guarded, user *runningScheduler, shipped *admissionv1.MatchResources) []corev1.Namespace {
	labeled := func(name, key, value string) corev1.Namespace {
		set := map[string]string{corev1.LabelMetadataName: name}
		if key != "" {
			set[key] = value
		}
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}
	}
	if shipped != nil && shipped.NamespaceSelector != nil && len(shipped.NamespaceSelector.MatchLabels) > 0 {
		if user.namespace == "" {
			return nil
		}
		return []corev1.Namespace{labeled(user.namespace, "", "")}
	}
	var exempt []string
	namespaces := []corev1.Namespace{labeled("a-new-namespace", "", "")}
	for _, t := range tenancies(user.profile) {
		if feature.component == tenancyComponent {
			exempt = append(exempt, t.ExemptNamespaces...)
			namespaces = append(namespaces, labeled("a-new-namespace", t.NamespaceLabelKey, "a-tenant"))
		}
	}
	for _, object := range c.objects.Others() {
		if namespace, ok := object.(*corev1.Namespace); ok && !slices.Contains(exempt, namespace.Name) && !slices.Contains(systemNamespaces, namespace.Name) {
			namespaces = append(namespaces, *namespace)
		}
	}
	return namespaces
}

// systemNamespaces are those that only administrators write to.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
