// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate checks what an API server would never have let through, and what a
// scheduler takes for granted: names, and amounts that are not negative. It
// returns the first problem, with its field.
func validate(kind Kind, obj runtime.Object, meta metav1.Object) error {
	path := field.NewPath("metadata")
	switch {
	case meta.GetName() == "":
		return field.Required(path.Child("name"), "every object has a name")
	case kind.Namespaced && meta.GetNamespace() == "":
		return field.Required(path.Child("namespace"), fmt.Sprintf("every %s has one", kind.Kind))
	case !kind.Namespaced && meta.GetNamespace() != "":
		return field.Invalid(path.Child("namespace"), meta.GetNamespace(), fmt.Sprintf("a %s has none", kind.Kind))
	}
	switch obj := obj.(type) {
	case *corev1.Node:
		status := field.NewPath("status")
		return errors.Join(validateAmounts(status.Child("allocatable"), obj.Status.Allocatable), validateAmounts(status.Child("capacity"), obj.Status.Capacity))
	case *corev1.Pod:
		return validatePod(obj)
	default:
		return nil
	}
}

func validatePod(pod *corev1.Pod) error {
	spec := field.NewPath("spec")
	if len(pod.Spec.Containers) == 0 {
		return field.Required(spec.Child("containers"), "a pod has at least one container")
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			path := spec.Child(list.name).Index(i).Child("resources")
			resources := &list.containers[i].Resources
			if err := errors.Join(validateAmounts(path.Child("requests"), resources.Requests), validateAmounts(path.Child("limits"), resources.Limits)); err != nil {
				return err
			}
		}
	}
	return validateAmounts(spec.Child("overhead"), pod.Spec.Overhead)
}

// validateAmounts refuses the first amount, by name, that is negative.
func validateAmounts(path *field.Path, list corev1.ResourceList) error {
	var names []string
	for name, amount := range list {
		if amount.Sign() < 0 {
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	amount := list[corev1.ResourceName(names[0])]
	return field.Invalid(path.Key(names[0]), amount.String(), "must not be negative")
}
