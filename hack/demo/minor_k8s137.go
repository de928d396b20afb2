// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package main

const (
	// bin is where make build puts the binaries for this minor release of Kubernetes.
	bin = "bin"
	// gangGates are the feature gates with which Kubernetes places gangs, and gangAPI has
	// the API server serve their PodGroups.
	gangGates = "GenericWorkload=true"
	gangAPI   = "scheduling.k8s.io/v1beta1=true"
)
