// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labelpresence is a kube-scheduler plugin that chooses nodes by the
// label keys that they carry, and dedicates nodes to tenants. README.md beside
// this file is for its users.
//
// # What it guarantees
//
//   - A pod gets no node that breaks a rule that applies to the pod, nor a node
//     that tenancy keeps from it, at the moment of the decision. Running pods are
//     left alone when labels change afterwards; with tenancy they are reported.
//   - Tenancy looks at the labels of the node and of the namespace, and at the
//     namespace's name. Nothing that the author of a pod can write lifts it.
//   - Where a namespace's labels decide and the namespace is not known, the pod
//     waits: nothing is let through on a guess.
//   - A pod that was refused is tried again as soon as the scheduler learns of a
//     change that can help it, and of no other.
//
// # How it works
//
// New compiles the arguments into a policy. PreFilter finds out what the policy
// means for one pod (constraints): the rules that apply to it, and the tenant of
// its namespace. Filter compares that with a node's labels; it parses nothing,
// takes no lock, and allocates nothing for a node that passes. Score adds up the
// preferences.
//
// The labels of namespaces come from an index (namespaceIndex) and never from a
// lister: the index is told of an event by the queueing hint before the hint
// wakes a pod, so that the pod does not meet an older state and sleep again.
//
// A monitor (tenancyMonitor) finds the pods that run where tenancy does not
// allow them, because something else put them there or a label changed. It works
// from events, in every replica, whether or not that replica leads: with two
// replicas a pod gets an event from each, and each serves the gauge. A replica
// whose watch of nodes is behind its watch of pods can report a pod that is where
// it belongs; the gauge goes back once the watch catches up. A plugin is not told
// which replica leads: its first scheduling cycle would show it, but an idle
// leader has none, and would report nothing. Two events on a pod do less harm.
//
// # What it needs of the framework
//
// With a namespaceSelector or tenancy: a SharedInformerFactory that runs before
// the first scheduling cycle (PreFilter waits for the first list of namespaces),
// a PodActivator by the time a namespace's labels change, and the right to list
// and watch namespaces. An EventRecorder may be missing.
package labelpresence
