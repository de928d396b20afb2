// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/resource"
	convert "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
)

// validateClaims checks an object of DRA that comes from no API server, as one would: a CEL
// expression that does not compile, for example, otherwise ends the simulation at the first
// pod, without a file. It returns the first problem, with its field.
func validateClaims(obj runtime.Object, meta metav1.Object) error {
	if meta.GetUID() != "" {
		return nil
	}
	var problems field.ErrorList
	var err error
	switch obj := obj.(type) {
	case *resourcev1.DeviceClass:
		problems, err = problemsOf(obj, convert.Convert_v1_DeviceClass_To_resource_DeviceClass, validation.ValidateDeviceClass)
	case *resourcev1.ResourceSlice:
		problems, err = problemsOf(obj, convert.Convert_v1_ResourceSlice_To_resource_ResourceSlice, validation.ValidateResourceSlice)
	case *resourcev1.ResourceClaim:
		problems, err = problemsOf(obj, convert.Convert_v1_ResourceClaim_To_resource_ResourceClaim, validation.ValidateResourceClaim)
	case *resourcev1.ResourceClaimTemplate:
		problems, err = problemsOf(obj, convert.Convert_v1_ResourceClaimTemplate_To_resource_ResourceClaimTemplate, validation.ValidateResourceClaimTemplate)
	}
	if err != nil || len(problems) == 0 {
		return err
	}
	return problems[0]
}

// converted is the internal types of the API server.
type converted interface {
	resource.DeviceClass | resource.ResourceSlice | resource.ResourceClaim | resource.ResourceClaimTemplate
}

// problemsOf converts a copy of an object with defaults, and validates it.
func problemsOf[T runtime.Object, I converted](obj T, to func(T, *I, conversion.Scope) error, check func(*I) field.ErrorList) (field.ErrorList, error) {
	withDefaults, ok := obj.DeepCopyObject().(T)
	if !ok {
		return nil, nil
	}
	setDefaults(withDefaults)
	internal := new(I)
	if err := to(withDefaults, internal, nil); err != nil {
		return nil, err
	}
	return check(internal), nil
}
