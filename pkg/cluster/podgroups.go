// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

// PodGroup is one of Kubernetes' own gangs, of any version.
type PodGroup struct {
	Namespace, Name string
	// MinCount is how many members start together at least; 0 if each starts for itself.
	MinCount int
}
