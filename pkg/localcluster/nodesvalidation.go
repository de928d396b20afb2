// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateNodes returns every error of nodes that did not come from a file.
func validateNodes(nodes []corev1.Node) []error {
	var errs []error
	seen := map[string]int{}
	for i := range nodes {
		where := fmt.Sprintf("nodes[%d]", i)
		for _, err := range validateNode(&nodes[i]) {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
		if first, ok := seen[nodes[i].Name]; ok {
			errs = append(errs, fmt.Errorf("%s: %w (the first one is nodes[%d])", where, field.Duplicate(field.NewPath("metadata", "name"), nodes[i].Name), first))
			continue
		}
		seen[nodes[i].Name] = i
	}
	return errs
}

// validateNode finds what the API server would refuse, and so before there is one.
func validateNode(node *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	meta, spec, status := field.NewPath("metadata"), field.NewPath("spec"), field.NewPath("status")
	if node.Name == "" {
		errs = append(errs, field.Required(meta.Child("name"), "every node needs a name of its own"))
	} else {
		for _, problem := range validation.IsDNS1123Subdomain(node.Name) {
			errs = append(errs, field.Invalid(meta.Child("name"), node.Name, problem))
		}
	}
	errs = append(errs, metav1validation.ValidateLabels(node.Labels, meta.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(node.Annotations, meta.Child("annotations"))...)
	for i, taint := range node.Spec.Taints {
		path := spec.Child("taints").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, path.Child("key"))...)
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(path.Child("effect"), taint.Effect, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
			}))
		}
	}
	errs = append(errs, validateResources(node.Status.Capacity, status.Child("capacity"))...)
	return append(errs, validateResources(node.Status.Allocatable, status.Child("allocatable"))...)
}

func validateResources(resources corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		quantity := resources[name]
		for _, problem := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(path, name, problem))
		}
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must not be negative"))
		}
	}
	return errs
}
