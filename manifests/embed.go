// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests holds the rights that the manifests here grant, for programs
// that run the schedulers without installing them.
package manifests

import "embed"

// Rights are the files with the namespace, the ServiceAccounts and the roles of
// berth-scheduler, that of Colocation included, and of random-scheduler.
//
//go:embed namespace/namespace.yaml base/serviceaccount.yaml base/rbac.yaml components/colocation/rbac.yaml random-scheduler/rbac.yaml
var Rights embed.FS
