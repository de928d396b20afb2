// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetDefaults_LabelPresenceArgs fills what is missing and leaves the rest alone;
// what is wrong is for validation. Every value is fresh, so that no two objects
// share memory.
func SetDefaults_LabelPresenceArgs(obj *LabelPresenceArgs) {
	if obj.DaemonSets == "" {
		obj.DaemonSets = DaemonSetsExempt
	}
	if obj.Tenancy == nil {
		return
	}
	if obj.Tenancy.Tenants == "" {
		obj.Tenancy.Tenants = TenantsConfined
	}
	if obj.Tenancy.ExemptNamespaces == nil {
		obj.Tenancy.ExemptNamespaces = []string{metav1.NamespaceSystem}
	}
}
