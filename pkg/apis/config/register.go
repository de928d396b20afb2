// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
)

// SchemeGroupVersion is kube-scheduler's own configuration group, internal
// version.
var SchemeGroupVersion = schema.GroupVersion{Group: schedulerconfigv1.GroupName, Version: runtime.APIVersionInternal}

var (
	// SchemeBuilder collects what AddToScheme does.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the internal types of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ColocationArgs{},
		&GPUDeviceArgs{},
		&LabelPresenceArgs{},
	)
	return nil
}
