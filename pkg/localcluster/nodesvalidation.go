// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
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

// validateNode finds what the API server would refuse of a node that package cluster has read,
// and so before there is an API server.
func validateNode(node *corev1.Node) field.ErrorList {
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	meta := field.NewPath("metadata")
	errs := metav1validation.ValidateLabels(node.Labels, meta.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(node.Annotations, meta.Child("annotations"))...)
	for i, taint := range node.Spec.Taints {
		path := field.NewPath("spec", "taints").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, path.Child("key"))...)
		if !slices.Contains(effects, taint.Effect) {
			errs = append(errs, field.NotSupported(path.Child("effect"), taint.Effect, effects))
		}
	}
	return errs
}
