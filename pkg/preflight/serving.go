// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServingRights are what a component needs that lets the API server decide who may
// read its /metrics: AuthenticationRights and AuthorizationRights.
func ServingRights(lookup bool) []Right {
	return slices.Concat(AuthenticationRights(lookup), AuthorizationRights())
}

// AuthenticationRights are what finding out who reads /metrics needs. lookup is
// false where the authorities of client certificates are not looked up.
func AuthenticationRights(lookup bool) []Right {
	const why = "/metrics and the health endpoints ask who is asking"
	rights := []Right{{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews", Why: why}}
	if lookup {
		rights = append(rights, Expand(Right{
			Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication",
			Why: why + " (a RoleBinding there to the Role extension-apiserver-authentication-reader)",
		}, "get", "list", "watch")...)
	}
	return rights
}

// AuthorizationRights are what finding out whether they may needs.
func AuthorizationRights() []Right {
	return []Right{{
		Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews",
		Why: "/metrics and the health endpoints ask whether the reader may",
	}}
}
