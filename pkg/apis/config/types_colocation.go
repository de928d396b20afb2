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

	Rules        []ColocationRule
	TopologyKeys []string

	Prefer         []string
	FirstPodPolicy string
	NodeSearch     string
}

// ColocationRule asks that the pods that it selects are near the pods of
// Services. At least one is named.
type ColocationRule struct {
	PodSelector         *metav1.LabelSelector
	NamespaceSelector   *metav1.LabelSelector
	Services            []ColocationService
	TopologyKeys        []string
	RequiredTopologyKey string
	Weight              int32

	Prefer        []string
	RequireWithin string
	MaxPerNode    int32
}

// ColocationService is a Service to be near.
type ColocationService struct {
	Name   string
	Weight int32
}
