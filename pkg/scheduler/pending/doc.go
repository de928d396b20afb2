// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pending tells the owner of a pod that waits why it does, in the order in
// which the owner needs to know it.
//
// The scheduler writes one message for each failed attempt, as an event and as the
// pod's condition: the reasons of all nodes in the order of their text, and behind
// them what each PostFilter plugin answered. [Explainer] stands between the attempt
// and that write. It puts first what the owner can change, names the taint and the
// gang, and leaves out what was said of preemption and of claims where neither can
// help. It runs after every plugin has answered, and the plugins' results, the
// node that preemption chose and the number of writes stay as they were: nothing
// that it does can change where or when a pod is placed.
//
// Behind the reasons it names the node that came nearest, with what it lacks, where the
// profile has plugins that measure that (nearmiss.Plugin). A node's name within a
// plugin's reason would make as many reasons as nodes. The text is kept in the pod's
// condition, and read there at the next attempt: it stays while it is true and the rest of
// the message is the same, so that it costs no writes.
//
// Where tenancy applies to a pod, the text describes the nodes that it leaves to the pod as
// if there were no others, and does not depend on them in any way (nearmiss.View).
//
// [WatchSchedulerNames] warns of pods that no attempt is ever made for, because
// their schedulerName is one of this scheduler's profiles with a typo.
package pending
