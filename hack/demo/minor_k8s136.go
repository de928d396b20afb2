// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package main

const (
	// bin is where make build puts the binaries for this minor release of Kubernetes.
	bin = "bin/k8s-1.36"
	// gangGates are the feature gates with which Kubernetes places gangs, and gangAPI has
	// the API server serve their PodGroups.
	gangGates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
	gangAPI   = "scheduling.k8s.io/v1alpha2=true"
)
