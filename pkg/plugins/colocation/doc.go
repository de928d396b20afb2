// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocation is a kube-scheduler plugin that puts pods near the Services
// that they talk to. README.md beside this file is for its users; where the pods
// behind each Service are, package peers knows.
//
// # What it guarantees
//
//   - A requirement waits, and a preference never does. A pod with a requirement gets
//     no node that lacks a pod of the Service within the level required, as far as this
//     scheduler instance knows; where no node has one, because the Service has no pod
//     with a node, does not exist, or does not let the pod near it, the pod stays
//     pending, also if that comes about while it waits. A pod that is itself behind the
//     Service is the exception, while no other pod behind it is where the key has a
//     value: see requirement.first.
//   - Two pods that are scheduled one after the other see each other: what was
//     reserved counts as if it were bound.
//   - A Service that does not exist and one that does not let the pod near it are
//     the same to the author of a pod, in text, in score and in where the pod goes.
//   - What a pod asks for and cannot be understood is rejected with a reason that
//     names the annotation, at the first attempt, and holds up no other pod.
//   - What a cycle costs does not depend on the number of pods in the cluster.
//
// # How it works
//
// As in InterPodAffinity, filtering.go has PreFilter and Filter, scoring.go Score, and
// plugin.go the rest of the extension points. PreFilter finds out what the pod asks for
// (request: one term for its annotations, and one for every rule that selects it), and
// takes a view of each Service that is named (target) from the index of package peers. A
// view does not change, so that all nodes are judged by the same counts; Filter and Score
// read it without a lock, and allocate nothing. The profiles of a scheduler instance
// share one index, fed by the events of pods, nodes, Services and EndpointSlices, and by
// Reserve and Unreserve (instanceState).
//
// Preemption and nominated pods: AddPod and RemovePod record by how much the node of a
// dry run differs from the view. Whether the pod is the first of its group is
// decided once, before: otherwise evicting the only peer would make every node
// acceptable.
//
// Above 100 nodes the scheduler looks at a part of them. PreFilter leaves a ranking of all
// nodes in the cycle (package candidates), by which NodeCandidates narrows it to those
// that can win. ranking.go computes it: what Filter and Score say of each node, from the
// index and from the nodes' values of the topology keys, which topology.go keeps by
// position. It costs nothing for a pod that asks for what another one did, where no
// peer and no node changed since; otherwise a pass over numbers.
//
// # Which waiting pods an event can help
//
// One question, with one answer (waiting.go): those that this plugin rejected in the last
// attempt that came to it (rejection), and for which the index answers otherwise now than in that
// attempt, such that all that they require can be met and something of it could not. A
// rejection keeps the views of its attempt, which do not change, and the pod is asked
// about as it is now; so the answer does not depend on who asks, when, or how often,
// nothing is parsed for it, and no event is lost between two goroutines. A rejection is
// recorded where it happens, in PreFilter or at the first node that Filter rejects, and
// taken back by Reserve: of an attempt that fails, a member of a pod group hears in no
// PostFilter. history_test.go of package peers is about the index, and TestPodHint,
// TestNodeHint and TestWhatWakesNobody are about this.
//
// Pods and nodes: queueing hints, which bring the index up to date before they answer.
//
// Services, EndpointSlices and namespaces: the handlers that feed the index, by
// Activate, when the pod's backoff is over, and if the answer is still another one
// then. EventsToRegister could name their resources (services.v1. and so on), and
// the scheduler would watch them a second time by dynamic informers: with every
// EndpointSlice of the cluster in memory once more, untyped, those included that the
// label selector of the informer here leaves out, and all hints run, under the queue's
// lock, whenever any endpoint becomes ready. The price is that the backoff is computed
// here, from the attempts that the plugin saw and the default durations.
//
// # What it needs of the framework
//
// A SharedInformerFactory that runs before the first scheduling cycle (PreFilter
// waits until the first lists are in the index), and a PodActivator by the time a
// Service changes. The scheduler must be allowed to list and watch services,
// endpointslices and namespaces. An EventRecorder may be missing.
package colocation
