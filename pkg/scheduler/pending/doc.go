// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pending tells the owner of a Pending pod why the pod has no node, the most
// useful fact first.
//
// The scheduler writes one message for each failed attempt, as an event and as the pod's
// condition: the reasons of all nodes, sorted by their text, and after them what each
// PostFilter plugin answered. [Explainer] stands between the attempt and that write. It
// puts first what the owner can change, names the taint and the gang, and omits what was
// said about preemption and claims where neither can help. It runs after every plugin has
// answered. The plugins' results, the node that preemption chose and the number of writes
// stay as they were: nothing that it does can change where or when a pod is placed.
//
// After the reasons it names the closest node, with what that node lacks, where the
// profile has plugins that measure this (shortfall.Plugin). A node's name within a
// plugin's reason would make as many reasons as nodes. The text is kept in the pod's
// condition, and read there at the next attempt: it stays while it is true and the rest of
// the message is the same, so that it costs no writes.
//
// Where tenancy applies to a pod, the text describes the nodes that the pod may use as if
// there were no others, and does not depend on the others in any way (shortfall.View).
//
// [WatchSchedulerNames] warns about pods that no scheduler ever tries, because their
// schedulerName is a typo of one of this scheduler's profiles.
package pending
