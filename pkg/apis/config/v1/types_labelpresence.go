// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LabelPresenceArgs configures the LabelPresence plugin: which labels a node
// must or must not carry for a pod, which it should carry, and which nodes
// belong to a tenant. At least one of rules, preferences and tenancy is set.
type LabelPresenceArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Rules filter nodes. A node must satisfy every rule that applies to the pod.
	// At most 1000.
	// +optional
	// +listType=atomic
	Rules []LabelPresenceRule `json:"rules,omitempty"`
	// Preferences score nodes, for every pod. At most 1000.
	// +optional
	// +listType=atomic
	Preferences []LabelPresencePreference `json:"preferences,omitempty"`
	// Tenancy dedicates nodes to tenants. Absent: no node is dedicated.
	// +optional
	Tenancy *LabelPresenceTenancy `json:"tenancy,omitempty"`
	// DaemonSets says whether rules apply to pods that a DaemonSet put on one
	// given node: Exempt or Enforce. Preferences and tenancy do not depend on it.
	// Default: Exempt.
	// +optional
	DaemonSets DaemonSetPolicy `json:"daemonSets,omitempty"`
}

// LabelPresenceRule requires labels on the nodes of the pods that it applies to.
type LabelPresenceRule struct {
	// Labels are the label keys, 1 to 64, each a valid qualified name. The value
	// of the label on the node does not matter.
	// +listType=atomic
	Labels []string `json:"labels"`
	// Presence says what is required of each of labels: true, the node carries
	// it; false, the node does not. Required: there is no default, so that a
	// forgotten presence does not silently mean one of the two.
	Presence *bool `json:"presence,omitempty"`
	// PodSelector restricts the rule to pods with these labels.
	// Absent or empty: all pods. At most 64 requirements (matchLabels and
	// matchExpressions together), with at most 256 values in all expressions.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector restricts the rule to pods in namespaces with these
	// labels. Absent or empty: all namespaces. With both selectors set, a pod
	// must match both. The bounds are those of podSelector.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// LabelPresencePreference prefers nodes that carry, or lack, a label.
type LabelPresencePreference struct {
	// Label is the label key, a valid qualified name. Required.
	Label string `json:"label"`
	// Presence: true prefers nodes that carry label, false nodes that do not.
	// Required.
	Presence *bool `json:"presence,omitempty"`
	// Weight is how much the preference counts relative to the others, 1 to 100.
	// Required.
	Weight int32 `json:"weight"`
}

// LabelPresenceTenancy dedicates nodes to tenants. A tenant is the value of a
// label: on a node it says to whom the node belongs, on a namespace it says to
// whom the namespace's pods belong.
type LabelPresenceTenancy struct {
	// NodeLabelKey is the label key that names a node's tenant. A node that has
	// neither this label nor the taint nodeTaintKey is shared. It must lie under
	// node-restriction.kubernetes.io, where no kubelet may set it on its own Node,
	// unless allowUnrestrictedNodeLabelKey says otherwise. Required.
	NodeLabelKey string `json:"nodeLabelKey"`
	// AllowUnrestrictedNodeLabelKey accepts a nodeLabelKey that a kubelet may set
	// on its own Node: whoever takes over a node can choose its tenant.
	// Default: false.
	// +optional
	AllowUnrestrictedNodeLabelKey bool `json:"allowUnrestrictedNodeLabelKey,omitempty"`
	// NodeTaintKey is the key of the taint that keeps other schedulers off the
	// nodes of tenants. A node with this taint, whatever its effect, belongs to a
	// tenant. While nodeLabelKey does not name the tenant too, or names another
	// one than the taint's value (an empty value names none), the tenant is not
	// known, and the node takes pods of exempt namespaces only. Required.
	NodeTaintKey string `json:"nodeTaintKey"`
	// NamespaceLabelKey is the label key that names a namespace's tenant. A
	// namespace without it has none. Required.
	NamespaceLabelKey string `json:"namespaceLabelKey"`
	// Tenants says where the pods of a tenant may run: Confined, on the tenant's
	// own nodes only, or Free, also on nodes that are not dedicated.
	// Default: Confined, because a pod that cannot run is noticed and a tenant's
	// pod on a shared node is not.
	// +optional
	Tenants TenantPolicy `json:"tenants,omitempty"`
	// ExemptNamespaces names namespaces whose pods run on any node, dedicated or
	// not. Default, when absent: [kube-system]. An empty list means none, which
	// is why an empty list must survive encoding (omitzero, not omitempty). At
	// most 10000.
	// +optional
	// +listType=atomic
	ExemptNamespaces []string `json:"exemptNamespaces,omitzero"`
	// AllowNoLeaderElection accepts a configuration without leader election:
	// nothing then keeps a process with an older tenancy from placing pods beside
	// this one. Default: false.
	// +optional
	AllowNoLeaderElection bool `json:"allowNoLeaderElection,omitempty"`
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
