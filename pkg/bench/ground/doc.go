// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ground is the part of a cluster that one benchmark run uses: a namespace
// and fake nodes of its own, and the way back to what the cluster held before.
//
//	Prepare --> CreateNodes --> (Probe, pods, Reset)... --> Close
//	                                   |
//	                                   x killed --> Clean, by another process
//
// What it promises:
//
//   - The run's namespace is the first object that it creates, and stays until its
//     pods and nodes are gone, so that whatever a killed run leaves can be found.
//   - Everything is told apart by the label names.BenchLabel with the run's id, and
//     by names that start with names.BenchPrefix and the id. An object that has only
//     one of the two is somebody else's and stays. What others make for the run's
//     nodes (their Leases, pods that tolerate every taint, events) has no such label: it is
//     known by the node's name, and stays while a node of that name exists.
//   - The cluster's own nodes take no pod of a run from a scheduler that heeds
//     selectors or taints: its pods select the run's nodes, and those are tainted. A
//     pod of a run that is elsewhere nevertheless is found by CheckNode. On a cluster
//     that nothing else uses (Options.Exclusive) there is neither selector nor taint.
//   - Pods that tolerate every taint, mostly those of DaemonSets, are kept off the
//     run's nodes by the label kubernetes.io/os, which is none there instead of linux.
//     Those that do not even select an operating system do come, of DaemonSets and of
//     others; they go with the nodes, and events about them stay until they expire,
//     like all events about objects of others.
//   - Load balancers get none of the run's nodes, and autoscalers make none for its
//     pods. Pods of others that are spread in a way that counts tainted nodes make
//     Prepare refuse. What else counts nodes or pods (the controllers that give out
//     pod addresses, autoscalers of the cluster's services) counts the run's too.
//   - A run that is alive renews a Lease in its namespace. Clean leaves such a run
//     alone unless it is told otherwise.
package ground
