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

	// Rules filter nodes. A node must satisfy every rule that applies to the pod.
	// At most 1000.
	Rules []LabelPresenceRule
	// Preferences score nodes, for every pod. At most 1000.
	Preferences []LabelPresencePreference
	// Tenancy dedicates nodes to tenants. Nil: no node is dedicated.
	Tenancy *LabelPresenceTenancy
	// DaemonSets says whether Rules apply to pods that a DaemonSet put on one
	// given node. Preferences and Tenancy do not depend on it.
	// Default: Exempt.
	DaemonSets DaemonSetPolicy
}

// LabelPresenceRule requires labels on the nodes of the pods that it applies to.
type LabelPresenceRule struct {
	// Labels are the label keys, 1 to 64, each a valid qualified name. The value
	// of the label on the node does not matter.
	Labels []string
	// Presence says what is required of each of Labels: true, the node carries
	// it; false, the node does not. There is no default: a forgotten presence
	// must not silently mean one of the two. That is why it stays a pointer
	// here, where validation (which runs after conversion) can see that it is
	// missing; it is never nil in validated arguments.
	Presence *bool
	// PodSelector restricts the rule to pods with these labels.
	// Nil or empty: all pods. At most 64 requirements (matchLabels and
	// matchExpressions together), with at most 256 values in all expressions.
	PodSelector *metav1.LabelSelector
	// NamespaceSelector restricts the rule to pods in namespaces with these
	// labels. Nil or empty: all namespaces. With both selectors set, a pod must
	// match both. The bounds are those of PodSelector.
	NamespaceSelector *metav1.LabelSelector
}

// LabelPresencePreference prefers nodes that carry, or lack, a label.
type LabelPresencePreference struct {
	// Label is the label key, a valid qualified name.
	Label string
	// Presence: true prefers nodes that carry Label, false nodes that do not.
	// Required, and never nil in validated arguments.
	Presence *bool
	// Weight is how much the preference counts relative to the others, 1 to 100.
	Weight int32
}

// LabelPresenceTenancy dedicates nodes to tenants. A tenant is the value of a
// label: on a node it says to whom the node belongs, on a namespace it says to
// whom the namespace's pods belong.
type LabelPresenceTenancy struct {
	// NodeLabelKey is the label key that names a node's tenant. A node that has
	// neither this label nor the taint NodeTaintKey is shared. It must lie under
	// node-restriction.kubernetes.io, where no kubelet may set it on its own Node,
	// unless AllowUnrestrictedNodeLabelKey says otherwise.
	NodeLabelKey string
	// AllowUnrestrictedNodeLabelKey accepts a NodeLabelKey that a kubelet may set
	// on its own Node: whoever takes over a node can choose its tenant.
	// Default: false.
	AllowUnrestrictedNodeLabelKey bool
	// NodeTaintKey is the key of the taint that keeps other schedulers off the
	// nodes of tenants. A node with this taint, whatever its effect, belongs to a
	// tenant. While NodeLabelKey does not name the tenant too, or names another
	// one than the taint's value (an empty value names none), the tenant is not
	// known, and the node takes pods of exempt namespaces only.
	NodeTaintKey string
	// NamespaceLabelKey is the label key that names a namespace's tenant. A
	// namespace without it has none.
	NamespaceLabelKey string
	// Tenants says where the pods of a tenant may run.
	// Default: Confined.
	Tenants TenantPolicy
	// ExemptNamespaces names namespaces whose pods run on any node, dedicated or
	// not. Default (nil): kube-system. Empty: none. At most 10000.
	ExemptNamespaces []string
	// AllowNoLeaderElection accepts a configuration without leader election:
	// nothing then keeps a process with an older tenancy from placing pods beside
	// this one. Default: false.
	AllowNoLeaderElection bool
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
