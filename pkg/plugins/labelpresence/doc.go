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
//   - Tenancy looks at the node's label and taint, at the namespace's label, and at
//     the namespace's name. Nothing that the author of a pod can write lifts it.
//   - Where a namespace's labels decide and the namespace is not known, the pod
//     waits: nothing is let through on a guess.
//   - With tenancy, the owner of a pod learns nothing about the nodes that tenancy keeps
//     from it: the plugin comes first in PreFilter and Filter (CheckOrder), leaves in the
//     cycle which nodes other plugins may speak of (plugin.WriteVisible), and tells pkg/scheduler/pending
//     which nodes a message may be about (View).
//   - A pod that was rejected is tried again as soon as the scheduler learns of a
//     change that can help it, and of no other.
//
// # When a node belongs to a tenant
//
// With args.tenancy, a node belongs to a tenant if it has the label nodeLabelKey or a
// taint nodeTaintKey of any effect. The tenant is T if the label says T and no
// such taint has a value other than T or none. A node that belongs to
// a tenant, and not to a T by that, is of an unknown tenant: one that registered with the taint
// and was not labeled yet, or one that is being given to another tenant. So
// whoever dedicates a node sets the taint first and the label last.
//
//	        taint             label T                    taint's value is not T
//	shared ───────> unknown ──────────> T's ── (label changed, or taint changed) ──> unknown
//
// A pod of a namespace that is not exempt is placed
//
//   - on a node of T only if its namespace is of tenant T;
//   - on a node of an unknown tenant never;
//   - on a shared node only if its namespace has no tenant, or tenants is Free.
//
// That holds for what the scheduler has been told at the moment of the decision,
// and model_test.go checks it over random histories. It holds in a cluster only if
// nothing else places pods, which no scheduler can see to: pkg/registry refuses a
// scheduler of which one profile keeps another tenancy or none, and
// manifests/components/tenancy has the admission policies for what does not pass
// through a profile with tenancy: other schedulers, spec.nodeName, Bindings, and
// the labels and taints themselves.
//
// # How it works
//
// New compiles the arguments into a policy. PreFilter finds out what the policy
// means for one pod (constraints): the rules that apply to it, and the tenant of
// its namespace. Filter compares that with a node's labels and taints; it parses nothing,
// takes no lock, and allocates nothing for a node that passes. Score adds up the
// preferences.
//
// The labels of namespaces come from the informer's store, and the handler of the same
// informer wakes the pods that a change may help (namespaceWatch): what wakes a pod, PreFilter
// sees. A pod that is rejected while its namespace changes is looked at once more when the
// rejection is recorded.
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
