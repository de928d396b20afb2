// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate checks what an API server would never have let through, and what a
// scheduler takes for granted: names, and amounts that are not negative and can be
// counted. It returns the first problem, with its field.
func validate(kind Kind, obj runtime.Object, meta metav1.Object) error {
	path := field.NewPath("metadata")
	// An API server is less strict with some kinds; those two are what reports show.
	problems := content.IsPathSegmentName(meta.GetName())
	switch obj.(type) {
	case *corev1.Node, *corev1.Pod:
		problems = validation.NameIsDNSSubdomain(meta.GetName(), false)
	}
	switch {
	case meta.GetName() == "":
		return field.Required(path.Child("name"), "every object has a name")
	case len(problems) > 0:
		return field.Invalid(path.Child("name"), meta.GetName(), problems[0])
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
	}
	if err := validateClaims(obj, meta); err != nil {
		return err
	}
	return validatePodGroup(obj)
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
	if whole := pod.Spec.Resources; whole != nil {
		path := spec.Child("resources")
		if err := errors.Join(validateAmounts(path.Child("requests"), whole.Requests), validateAmounts(path.Child("limits"), whole.Limits)); err != nil {
			return err
		}
	}
	return validateAmounts(spec.Child("overhead"), pod.Spec.Overhead)
}

// Amounts beyond these overflow where a scheduler adds them up, and a pod that asks
// for too much then seems to ask for little.
const (
	maxCPU    = 1 << 50
	maxAmount = 1 << 60
)

// validateAmounts refuses the first amount, by name, that is negative or too large.
func validateAmounts(path *field.Path, list corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount, most := list[name], int64(maxAmount)
		if name == corev1.ResourceCPU {
			most = maxCPU
		}
		switch {
		case amount.Sign() < 0:
			return field.Invalid(path.Key(string(name)), amount.String(), "must not be negative")
		case exceeds(amount, most):
			return field.Invalid(path.Key(string(name)), amount.String(), "must be at most "+resource.NewQuantity(most, resource.BinarySI).String())
		}
	}
	return nil
}

// exceeds reports whether an amount is larger than most. Comparing writes both out,
// which for an exponent of a billion takes a billion digits; so it is looked at
// first.
func exceeds(amount resource.Quantity, most int64) bool {
	const digits = 30 // most has fewer
	if value, ok := amount.AsInt64(); ok {
		return value > most
	}
	exact := amount.DeepCopy() // AsDec changes how an amount is kept
	return amount.Sign() > 0 && (exact.AsDec().Scale() < -digits || amount.CmpInt64(most) > 0)
}
