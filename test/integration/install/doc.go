// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install installs the shipped manifests into a test's cluster and plays
// the kubelet for them: it runs, as a process on this machine, exactly what a
// Deployment says, with the arguments, the mounted ConfigMaps and the credential
// of its ServiceAccount. So a test of the manifests is a test of what an
// administrator gets.
//
// Three things differ from a pod, because a process on this machine has no
// network namespace and no projected volume: the API server's address and the
// token come in a kubeconfig, the secure port is a free one, and the files lie
// below a temporary folder.
package install
