// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	componentbaseconfig "k8s.io/component-base/config"
)

// ServingRights are what a component needs that lets the API server decide who may
// read its /metrics: AuthenticationRights and AuthorizationRights.
func ServingRights(lookup bool) []Right {
	return slices.Concat(AuthenticationRights(lookup), AuthorizationRights())
}

// AuthenticationRights are what finding out who reads /metrics needs. lookup is
// false where the authorities of client certificates are not looked up.
func AuthenticationRights(lookup bool) []Right {
	const why = "requests to /metrics and the health endpoints are authenticated"
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
		Why: "requests to /metrics and the health endpoints are authorized",
	}}
}

// LeaseRights are what leader election needs; nothing without it.
func LeaseRights(le componentbaseconfig.LeaderElectionConfiguration, why string) []Right {
	if !le.LeaderElect {
		return nil
	}
	lease := Right{Group: "coordination.k8s.io", Resource: "leases", Namespace: le.ResourceNamespace, Why: why}
	// A create cannot be granted by name.
	rights := Expand(lease, "create")
	lease.Name = le.ResourceName
	return append(rights, Expand(lease, "get", "update")...)
}

// CheckLeaseNamespace fails if the namespace of the lease does not exist: leader
// election would ask for it indefinitely. Creating the lease as a dry run needs no right
// that leader election does not need too.
func CheckLeaseNamespace(ctx context.Context, client kubernetes.Interface, le componentbaseconfig.LeaderElectionConfiguration) error {
	if !le.LeaderElect {
		return nil
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: le.ResourceNamespace, Name: le.ResourceName}}
	_, err := client.CoordinationV1().Leases(le.ResourceNamespace).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("leaderElection.resourceNamespace: namespace %q does not exist, and the lease must be in one: create it (kubectl create namespace %s), or name another", le.ResourceNamespace, le.ResourceNamespace)
	}
	return nil
}
