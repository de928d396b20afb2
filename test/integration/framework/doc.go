// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework gives an integration test a control plane of its own and the
// binaries of this repository to run against it.
//
// Every Cluster is a real etcd, kube-apiserver, kube-controller-manager and kwok
// in a folder of the test, with RBAC on and without a scheduler: a test starts
// those that it needs, each with a credential of its own. What a test started is
// stopped when it ends; when it failed, the ends of the logs are printed.
//
// The binaries come from bin/, which "make build" brings up to date once a test
// process. With BERTH_BIN set to a folder (a relative path starts at the root of
// the repository), its binaries are used as they are.
package framework
