// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds what is wrong with a cluster that Berth serves: what berth-scheduler
// refuses or warns of at start, and what its plugins warn of while they run, found without
// starting it.
//
//	Deployments, their flags and ConfigMaps ─▶ Schedulers ─┐
//	nodes, pods, policies, leases, events ─────────────────┴─ Cluster ─▶ Report
//
// The rules are those of other packages. What a profile may say is in registry. What flags
// make of it, and which rights and served resources it needs, is in settings, which
// berth-scheduler asks at start. Who may hold a lease is in lease, what a node says of its
// devices in device, whose a node is in labelpresence, and which keys of a pod have an
// effect in unknownkeys.
//
// A cluster is only read: with get and list requests, and with access reviews, which
// write nothing. What may not be read becomes a note, and is no finding.
package check
