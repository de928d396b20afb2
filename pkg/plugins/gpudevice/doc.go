// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpudevice is a kube-scheduler plugin that shares GPUs between pods: it
// chooses the node and the device for each share, and writes the devices into the
// pod in the same request that gives it its node. README.md beside this file is
// for its users; the model of devices is package device.
//
// # What it guarantees
//
//   - Of a device no more is given away than it has, in compute and in memory each
//     on its own, as far as this scheduler instance knows. What another scheduler
//     does at the same moment it cannot know; it finds out and reports it.
//   - A pod has a node and the record of its devices, or neither: one write.
//   - What a pod was given stays taken until the pod is gone or has terminated,
//     whatever becomes of its annotations, of its node's labels, of the scheduler
//     or of the answer to the Binding.
//   - A request that can never be served is refused with a reason that names the
//     field, at the first attempt, and holds up no other pod.
//
// # How it works
//
// The bound pods are the truth. What is free on a node is computed from its
// NodeInfo, which has the bound and assumed pods, and remembered as long as the
// NodeInfo is unchanged (nodeView). So preemption, nominated pods and a restart
// need no bookkeeping of their own. Filter reads the view without a lock.
//
// Beside the NodeInfos there is a ledger, one for all profiles of a scheduler
// instance. It holds what was promised to a pod between Reserve and its arrival
// as a bound pod, and what a pod's record said when it was first seen; its
// comment has the states.
//
// Bind sends the Binding with the annotations. If it is not clear whether it was
// written, the pod keeps its devices, and Bind asks the API server and sends the
// same Binding again until it is.
//
// The first cycle of a process with a share waits until the pod informer has seen
// all that the API server has (leaderWait): a standby's may be a minute behind.
//
// Score asks package device for the score of each node and remembers it with the
// view, by what it depends on beside the node. The fragmentation gradients need to
// know what to expect: the arguments say it, or a learner watches what pods ask
// for. What of it is scarce depends on the cluster's devices, which are counted
// now and then (scaleOf).
//
// # What it needs of the framework
//
// A SharedInformerFactory that runs before the first scheduling cycle; the
// scheduler's own, so that terminated pods are not in it. In the profile it must
// bind before every other binder, and NodeResourcesFit must ignore the resource
// group of our domain; package registry checks both. An EventRecorder and a
// ClientSet may be missing in a simulation that does not bind.
package gpudevice
