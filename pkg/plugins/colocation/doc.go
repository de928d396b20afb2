// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocation is a kube-scheduler plugin that puts pods near the Services
// that they talk to. README.md beside this file is for its users; where the pods
// behind each Service are, package peers knows.
//
// # What it guarantees
//
//   - A pod with a requirement gets no node that lacks a pod of the Service within
//     the level required, as far as this scheduler instance knows; a Service none
//     of whose pods has a node binds nobody, or makes the pod wait, by
//     firstPodPolicy.
//   - Two pods that are scheduled one after the other see each other: what was
//     reserved counts as if it were bound.
//   - A Service that does not exist and one that does not let the pod near it are
//     the same to the author of a pod, in text, in score and in where the pod goes.
//   - What a pod asks for and cannot be understood is refused with a reason that
//     names the annotation, at the first attempt, and holds up no other pod.
//   - What a cycle costs does not depend on the number of pods in the cluster.
//
// # How it works
//
// The profiles of a scheduler instance share one index of peers, fed by the events
// of pods, nodes, Services and EndpointSlices, and by Reserve and Unreserve
// (instanceState). PreFilter finds out what the pod asks for (request: its
// annotations, and every rule that selects it), and takes a view of each Service
// that is named (term). A view does not change, so that all nodes are judged by
// the same counts; Filter and Score read it without a lock, and allocate nothing.
//
// Preemption and nominated pods: AddPod and RemovePod write down by how much the
// simulated node differs from the view. Whether a Service binds anybody is decided
// once, before: otherwise evicting its only pod would make every node acceptable.
//
// The search (search.go) makes the default sampling of nodes harmless: PreFilter
// offers the framework the nodes nearest to the peers alone, but only after one
// of them has passed the filters of every plugin, so that the pod is sure to fit.
//
// # Who wakes a pod
//
// Pods and nodes: queueing hints, which feed the index before they answer.
// Services, EndpointSlices and namespaces: the handlers that feed the index wake
// the pods that PreFilter has noted down under that name (waiters). Event
// registration of the framework would open a second watch and keep a second copy of
// every EndpointSlice of the cluster, untyped; and a pod could be woken by the one
// watch before the other has fed the index. PreFilter notes a pod down before it
// reads the index, and a handler feeds the index before it wakes, so no change
// falls between.
//
// # What it needs of the framework
//
// A SharedInformerFactory that runs before the first scheduling cycle (PreFilter
// waits until the first lists are in the index), and a PodActivator by the time a
// Service changes. The scheduler must be allowed to list and watch services,
// endpointslices and namespaces. An EventRecorder may be missing.
package colocation
