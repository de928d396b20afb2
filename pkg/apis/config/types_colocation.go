// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ColocationArgs configures the Colocation plugin: which pods belong near the
// pods of which Services, beside what the pods' own annotations say. Without any
// argument the annotations alone count.
type ColocationArgs struct {
	metav1.TypeMeta

	// Rules say for whole groups of pods what the annotations say for one. All
	// rules that select a pod apply to it, each beside its annotations. At most
	// 1000.
	Rules []ColocationRule
	// TopologyKeys are the topology keys, nearest first, of the rules and the pods
	// that name none: 1 to 8 label keys of nodes.
	// Default: kubernetes.io/hostname, topology.kubernetes.io/zone.
	TopologyKeys []string

	// Prefer is refused: it is TopologyKeys now.
	Prefer []string
	// FirstPodPolicy is refused: a requirement waits, and a preference never does.
	FirstPodPolicy string
	// NodeSearch is refused: a profile with NodeCandidates searches all nodes.
	NodeSearch string
}

// ColocationRule asks that the pods that it selects are near the pods of
// Services. At least one is named.
type ColocationRule struct {
	// PodSelector restricts the rule to pods with these labels.
	// Nil or empty: all pods. At most 64 requirements (matchLabels and
	// matchExpressions together), with at most 256 values in all expressions.
	PodSelector *metav1.LabelSelector
	// NamespaceSelector restricts the rule to pods in namespaces with these
	// labels. Nil or empty: all namespaces. With both selectors set, a pod must
	// match both. The bounds are those of PodSelector.
	NamespaceSelector *metav1.LabelSelector
	// Services are the Services to be near, 1 to 32.
	Services []ColocationService
	// TopologyKeys are the topology keys of this rule, nearest first, at most 8.
	// Empty: those of the arguments.
	TopologyKeys []string
	// RequiredTopologyKey is the topology key within which a pod of each of Services
	// must be. Until there is one, the pod waits, unless it is itself behind the
	// Service. Empty: being near is a preference only, for which no pod waits.
	RequiredTopologyKey string
	// Weight is how much the rule counts beside the other rules and the
	// annotations of the same pod, 1 to 100; annotations count 1. Default: 1.
	Weight int32

	// Prefer is refused: it is TopologyKeys now.
	Prefer []string
	// RequireWithin is refused: it is RequiredTopologyKey now.
	RequireWithin string
	// MaxPerNode is refused: topologySpreadConstraints of the pods do it.
	MaxPerNode int32
}

// ColocationService is a Service to be near.
type ColocationService struct {
	// Name is the name of a Service in the pod's own namespace, or
	// "namespace/name". A Service in another namespace counts only if it allows
	// that by its annotation. Required.
	Name string
	// Weight is how much the Service counts beside the rule's other Services, 1 to
	// 100. Default: 1.
	Weight int32
}
