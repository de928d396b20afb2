// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceusage says of each device of a cluster what is free of it, who holds
// the rest, and what is wrong: from API objects alone, and counted by package device, as
// GPUDevice counts it.
//
// What a running scheduler knows beyond the API is not in it: devices that are reserved
// for a pod whose Binding is not written yet. Pods without a node hold nothing, nominated
// ones too: they are told beside the others ([Waiting]).
//
//	nodes ─────────── device.ParseNode ───▶ device.Usage ──▶ [Node], [Device], [Model]
//	ResourceSlices ── Node.PublishedByDRA        ▲
//	pods ──────────── NodeKeys.HeldOn ─────────┴───────────▶ [Pod], [Namespace]
//
// Fragmentation is measured against the commonest shapes of the cluster's own pods, as
// `kubectl berth simulate` measures it (device.TypicalWorkload).
package deviceusage
