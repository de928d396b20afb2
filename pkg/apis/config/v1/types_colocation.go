// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ColocationArgs configures the Colocation plugin: which pods belong near the
// pods of which Services, beside what the pods' own annotations say. Without any
// argument the annotations alone count.
type ColocationArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Rules say for whole groups of pods what the annotations say for one. All
	// rules that select a pod apply to it, each beside its annotations. At most
	// 1000.
	// +optional
	// +listType=atomic
	Rules []ColocationRule `json:"rules,omitempty"`
	// TopologyKeys are the topology keys, nearest first, of the rules and the pods
	// that name none: 1 to 8 label keys of nodes.
	// Default: kubernetes.io/hostname, topology.kubernetes.io/zone.
	// +optional
	// +listType=atomic
	TopologyKeys []string `json:"topologyKeys,omitempty"`

	// Prefer is refused: it is TopologyKeys now.
	// +optional
	// +listType=atomic
	Prefer []string `json:"prefer,omitempty"`
	// FirstPodPolicy is refused: a requirement waits, and a preference never does.
	// +optional
	FirstPodPolicy string `json:"firstPodPolicy,omitempty"`
	// NodeSearch is refused: a profile with NodeCandidates searches all nodes.
	// +optional
	NodeSearch string `json:"nodeSearch,omitempty"`
}

// ColocationRule asks that the pods that it selects are near the pods of
// Services. At least one is named.
type ColocationRule struct {
	// PodSelector restricts the rule to pods with these labels.
	// Absent or empty: all pods. At most 64 requirements (matchLabels and
	// matchExpressions together), with at most 256 values in all expressions.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector restricts the rule to pods in namespaces with these
	// labels. Absent or empty: all namespaces. With both selectors set, a pod must
	// match both. The bounds are those of podSelector.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Services are the Services to be near, 1 to 32.
	// +optional
	// +listType=atomic
	Services []ColocationService `json:"services,omitempty"`
	// TopologyKeys are the topology keys of this rule, nearest first, at most 8.
	// Absent: those of the arguments.
	// +optional
	// +listType=atomic
	TopologyKeys []string `json:"topologyKeys,omitempty"`
	// RequiredTopologyKey is the topology key within which a pod of each of services
	// must be. Until there is one, the pod waits, unless it is itself behind the
	// Service. Absent: being near is a preference only, for which no pod waits.
	// +optional
	RequiredTopologyKey string `json:"requiredTopologyKey,omitempty"`
	// Weight is how much the rule counts beside the other rules and the
	// annotations of the same pod, 1 to 100; annotations count 1. Default: 1.
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// Prefer is refused: it is TopologyKeys now.
	// +optional
	// +listType=atomic
	Prefer []string `json:"prefer,omitempty"`
	// RequireWithin is refused: it is RequiredTopologyKey now.
	// +optional
	RequireWithin string `json:"requireWithin,omitempty"`
	// MaxPerNode is refused: topologySpreadConstraints of the pods do it.
	// +optional
	MaxPerNode int32 `json:"maxPerNode,omitempty"`
}

// ColocationService is a Service to be near.
type ColocationService struct {
	// Name is the name of a Service in the pod's own namespace, or
	// "namespace/name". A Service in another namespace counts only if it allows
	// that by its annotation. Required.
	Name string `json:"name"`
	// Weight is how much the Service counts beside the rule's other Services, 1 to
	// 100. Default: 1.
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}
