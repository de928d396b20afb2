// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LabelPresenceArgs configures the LabelPresence plugin: which labels a node
// must or must not carry for a pod, which it should carry, and which nodes
// belong to a tenant. At least one of Rules, Preferences and Tenancy is set.
type LabelPresenceArgs struct {
	metav1.TypeMeta

	Rules       []LabelPresenceRule
	Preferences []LabelPresencePreference
	Tenancy     *LabelPresenceTenancy
	DaemonSets  DaemonSetPolicy
}

// LabelPresenceRule requires labels on the nodes of the pods that it applies to.
type LabelPresenceRule struct {
	Labels []string
	// Presence is never nil in validated arguments: validation, which runs after conversion,
	// has to see that it is missing.
	Presence          *bool
	PodSelector       *metav1.LabelSelector
	NamespaceSelector *metav1.LabelSelector
}

// LabelPresencePreference prefers nodes that carry, or lack, a label.
type LabelPresencePreference struct {
	Label    string
	Presence *bool
	Weight   int32
}

// LabelPresenceTenancy dedicates nodes to tenants. A tenant is the value of a
// label: on a node it says to whom the node belongs, on a namespace it says to
// whom the namespace's pods belong.
type LabelPresenceTenancy struct {
	NodeLabelKey                  string
	AllowUnrestrictedNodeLabelKey bool
	NodeTaintKey                  string
	NamespaceLabelKey             string
	Tenants                       TenantPolicy
	ExemptNamespaces              []string
	AllowNoLeaderElection         bool
}

// TenantPolicy says where the pods of a tenant may run.
type TenantPolicy string

const (
	// TenantsConfined keeps a tenant's pods on the tenant's own nodes.
	TenantsConfined TenantPolicy = "Confined"
	// TenantsFree lets a tenant's pods also run on nodes that are not dedicated.
	TenantsFree TenantPolicy = "Free"
)

// DaemonSetPolicy says whether rules apply to the pods of DaemonSets.
type DaemonSetPolicy string

const (
	// DaemonSetsExempt exempts the pods that the DaemonSet controller creates for
	// one given node: they could not go anywhere else.
	DaemonSetsExempt DaemonSetPolicy = "Exempt"
	// DaemonSetsEnforce applies rules to them as to every other pod.
	DaemonSetsEnforce DaemonSetPolicy = "Enforce"
)
