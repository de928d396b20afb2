// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests holds what programs need of the manifests here: the rights that they
// grant, for those that run the schedulers without installing them, and the admission
// policies, for those that look whether they are installed.
package manifests

import "embed"

// Rights are the files with the namespace, the ServiceAccounts and the roles of
// berth-scheduler and random-scheduler.
//
//go:embed namespace/namespace.yaml base/serviceaccount.yaml base/rbac.yaml random-scheduler/rbac.yaml
var Rights embed.FS

// Policies are the files with the admission policies of the components.
//
//go:embed components/tenancy/policy-*.yaml components/gpu/policy-*.yaml components/gpu/mutation-*.yaml components/colocation/policy.yaml
var Policies embed.FS
