// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment is the part of a cluster that one benchmark run uses: a namespace
// and fake nodes of its own, and the way back to what the cluster held before.
//
//	Prepare --> CreateNodes --> (Probe, pods, Reset)... --> Close
//	                                   |
//	                                   x killed --> Clean, by another process,
//	                                                or kubectl delete namespace
//
// What it promises:
//
//   - The run's namespace is the first object that it creates, and owns the nodes, which
//     own their Leases: whoever deletes the namespace has the garbage collector delete
//     all of it. Close and Clean delete the namespace last, so that whatever a killed run
//     leaves can be found. They also remove the events about the nodes, which otherwise
//     expire, and are faster than the garbage collector.
//   - Namespace and nodes carry the label names.BenchLabel with the run's id, and names
//     that start with names.BenchPrefix and the id. A namespace that has only one of the
//     two, and a node that the namespace does not own, is somebody else's and stays.
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
package environment
