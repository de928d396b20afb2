// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
)

// SchemeGroupVersion is kube-scheduler's own configuration group, version v1.
var SchemeGroupVersion = schedulerconfigv1.SchemeGroupVersion

var (
	// localSchemeBuilder is where the generated conversions register themselves.
	localSchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)
	// AddToScheme registers the versioned types of this package in a scheme, with
	// their defaults and conversions. The internal types must be registered too.
	AddToScheme = localSchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ColocationArgs{},
		&GPUDeviceArgs{},
		&LabelPresenceArgs{},
	)
	return nil
}
