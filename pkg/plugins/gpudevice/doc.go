// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpudevice is a kube-scheduler plugin that shares GPUs between pods: it
// chooses the node and the device for each share, and writes the devices into the
// pod in the same request that gives it its node. README.md beside this file is
// for its users; the model of devices is package device.
//
// # What it guarantees
//
//   - Of a device no more is allocated than it has, in compute and in memory each
//     on its own, as far as this scheduler instance knows. What another scheduler
//     does at the same moment it cannot know; it finds out and reports it.
//   - No device is used by a pod to which this plugin allocated a share and by one that
//     has it from a device plugin or a DRA driver, however the node's labels change.
//   - A pod has a node and the record of its devices, or neither: one write.
//   - What a pod was given stays taken until the pod is gone or has terminated,
//     whatever becomes of its annotations, of its node's labels, of the scheduler
//     or of the answer to the Binding.
//   - A request that can never be served is rejected with a reason that names the
//     field, at the first attempt, and holds up no other pod.
//
// # How it works
//
// The bound pods are the truth. What is free on a node is computed from its
// NodeInfo, which has the bound and assumed pods, and remembered as long as the
// NodeInfo is unchanged (nodeView). So preemption, nominated pods and a restart
// need no bookkeeping of their own. Filter reads the view without a lock.
//
// What on a node uses which device, whoever allocated it, is one question, and
// nodeusage.go answers it. The invariant, checked in all orders of small clusters by test/interleaving: at
// any time, for every node and what the scheduler knows of it,
//
//	what is free of a device = what it has
//	  - the sum over pods that hold a share of it, found by UUID where the container
//	    reads a UUID, with the amount that it leaves out (compute or memory) defaulted by
//	    the node's present memory
//	a share is placed    =>  the node is shared, the device has room, and no pod there
//	                         uses devices of which it is not known which
//	a device plugin or a =>  the node is not shared, and no pod there holds a share
//	DRA driver allocates
//
// where a pod counts from when it is assumed until it is gone, has terminated or is
// unreserved, and a quantity of zero counts for nothing.
//
// Beside the NodeInfos there is a cache of allocations, one for all profiles of a scheduler
// instance. It holds the devices assumed for a pod between Reserve and its arrival
// as a bound pod, and what a pod's record said when it was first seen; its
// comment has the states.
//
// Bind sends the Binding with the annotations. If it is not clear whether it was
// written, the pod keeps its devices, and Bind asks the API server and sends the
// same Binding again until it is.
//
// A process that begins to schedule first sees to it that its pod informer has all that the API
// server has (Prepare): a standby's may be a minute behind. berth-scheduler does so before it
// says that it is ready, and until then pods with shares stay out of the queue; where nobody calls Prepare,
// the first cycle with a share starts it. No cycle waits for it. And
// it fences: a process that led before may have Bindings in flight, delayed for any time,
// with devices that nobody else knows to be assumed. Each Binding is for one resource
// version of its pod, and the new process raises that of every pending pod with a share,
// once, by a status patch, the fence: the pod condition berth.dev/gpu-fence. What arrives
// later fails with a conflict. So it does not
// matter whether a leader released its lease, or how long a Binding takes. The cost is one
// small write for each pod that waits for a share when a process takes over; pods that come
// later cost nothing. A pod that cannot be fenced is kept back, and counts where it
// might be (keptPods).
//
// The condition has a token that says which process has written it, and which of two processes
// began later. A process that finds the token of a later one gives no
// more shares (allocationCache.heedToken), and is not ready any more (GPUDevice.Ready). Pods of a schedulerName that it does not serve get no token: their
// scheduler may be another instance, which goes on, or a former process of this one with another
// profile, whose Bindings are refused all the same.
//
// Epochs are versions of etcd, which a restore lowers. A process from before the restore has a
// higher epoch than one that begins after it, and takes the token of that one for an older
// one's: both tokens that a restore brings back and those of a successor look like that. To
// give up for either would stop the right leader after every restore, and to begin again
// with a new epoch would let a process that has lost its lease stop its successor. So
// neither is done: Kubernetes asks for all components to be restarted after a restore.
//
// What this cannot prevent is a process that goes on although it lost its lease, one that
// was stopped for minutes for example: of pods that were created after the fence it may
// still bind one, until it finds out. Like another scheduler it is found out and reported.
//
// Score asks package device for the score of each node and remembers it with the
// view, by what it depends on beside the node. FragmentationGradient needs to
// know what to expect: the arguments say it, or it is learned from what pods
// request. What of it is scarce depends on the cluster's devices, which are counted
// now and then (updateCluster).
//
// # What it needs of the framework
//
// A SharedInformerFactory that runs before the first scheduling cycle; the
// scheduler's own, so that terminated pods are not in it. In the profile it must
// bind before every other binder, and NodeResourcesFit must ignore the resource
// group of our domain; package registry checks both. A PodActivator by the time pods
// change, and a PodNominator by the first Reserve. An EventRecorder and a ClientSet may be
// missing in a simulation that does not bind.
package gpudevice
