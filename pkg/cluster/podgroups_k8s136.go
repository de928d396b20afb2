// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package cluster

import "k8s.io/apimachinery/pkg/runtime"

// podGroupKinds are none: the PodGroups of 1.36 are of a version that no later release
// has.
var podGroupKinds []Kind

// PodGroups returns none.
func (*Cluster) PodGroups() []PodGroup { return nil }

// AdmitPodGroups does nothing.
func (PriorityClasses) AdmitPodGroups(*Cluster) {}

func validatePodGroup(runtime.Object) error { return nil }
