// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle says from API objects alone what schedulers did wrong: devices that
// were given more than once, allocations that cannot be read, rules that were broken.
//
// It is a second opinion, so it imports nothing of this repository and nothing of the
// scheduler: labels, resources and annotations are read in its own way, by names that
// are written down a second time. A test of this package checks that.
//
// CheckDevices checks one moment: a list of nodes and one of pods. Check checks
// placement, resources and events besides. History checks every version of every pod
// that a watch delivers, and whether two ever had a device at once. Replay does so from
// what was written down: audit logs or watch events, of which it also says what they do
// not show; and it checks tenants. CheckLost checks what is gone, and CheckMetrics whether
// a scheduler counts as the API does. All return
// Violations; a constraint of a pod that Check does not know is one too, so that nothing
// passes unchecked.
package oracle
