// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds what is wrong with a profile, and with a cluster that Berth serves:
// what berth-scheduler refuses or warns of at start, and what its plugins warn of while
// they run, found without starting it.
//
//	a file, and flags ──────────── Load ───▶ Profile, or an error for each field
//	Deployments, their flags and ConfigMaps ─▶ Schedulers ─┐
//	nodes, pods, policies, leases, events ─────────────────┴─ Cluster ─▶ Report
//
// The rules are those of other packages. What a profile may say is in registry, what flags
// make of it in settings; which
// rights a scheduler needs, and which resources have to be served, is here, and
// berth-scheduler asks for it at start; who may hold a lease is in lease, what a node says
// of its devices in device, whose it is in labelpresence, and which keys of a pod mean
// something in unknownkeys.
//
// A cluster is only read: with get and list requests, and with access reviews, which
// write nothing. What may not be read is told as a note, and is no finding.
package check
