// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine schedules pods onto a cluster in memory with the real plugins of
// a real profile: what berth-scheduler would do with the same
// KubeSchedulerConfiguration file, without an API server, without a clock and
// with an explicit seed.
//
// # What is the same as in berth-scheduler
//
//   - The configuration is decoded, defaulted and validated by the same code
//     ([LoadConfiguration]), and the frameworks are built by upstream's
//     frameworkruntime.NewFramework from package registry and the in-tree plugins.
//   - NodeInfos, their generations and the snapshot are upstream's scheduler cache.
//   - The cycles are upstream's own: [scheduler.Scheduler.ScheduleOne] runs for each pod
//     and, with the feature gates [GangGates], for each PodGroup of Kubernetes 1.37, with
//     its assuming, reserving, reverting, binding and preemption. How many feasible nodes
//     are searched for is upstream's answer, too. A Binding goes through the profile's Bind
//     plugins, and what they send is what the pod gets: a share's devices are the
//     annotations of that Binding.
//   - Plugins get the same events through informers of the same factory type. Here
//     they are delivered before the call that causes them returns, so that no
//     cycle sees a lister that lags behind.
//
// # What is different, on purpose
//
//   - The search for a node (SchedulePod, the one function of the cycle that is replaced)
//     looks at nodes in a fixed order, and of nodes with equal total scores one is drawn
//     uniformly with the seed. Upstream's own search cannot be made deterministic from
//     outside: it walks the nodes of a PreFilterResult in the order of a Go map, fills the
//     list of feasible nodes from racing goroutines, and takes whichever of the best comes
//     to the top of a heap. With one goroutine the map's order remains. Here the same seed
//     gives the same placements at any parallelism.
//   - One cycle runs at a time, and its binding is over before the next begins.
//   - Preemption happens only if asked for ([Options.Preemption]). Other PostFilter
//     plugins always run.
//   - A pod that is not placed is not tried again by itself, unless a plugin sends
//     it back within its own cycle: there is no queue, and so no back-off. The caller
//     decides in which order pods come ([Engine.InQueueOrder] gives that of the profile),
//     and whether they come again.
//   - PreBind of VolumeBinding does not run: it waits for controllers that are not here.
//     The volumes that Reserve assumed stay assumed. PreBind of DynamicResources runs, and
//     its writes are kept: ResourceClaims get their allocation and their consumers.
//   - What kube-controller-manager does about ResourceClaims happens at once: a pod that
//     arrives gets the claims of its templates; when it is gone its own claims go too, and
//     others lose it as a consumer and, with the last one, their allocation.
//   - No driver runs: the binding conditions of devices are met at once.
//   - The node hint of opportunistic batching is not used. It is a shortcut to the
//     node that the full cycle would have found.
//   - Extenders, and plugins that talk to a cluster of their own (Coscheduling),
//     are refused with an error.
//
// # Time
//
// The engine has no clock. [Engine.Schedule] is an arrival and [Engine.Delete] a
// departure; a replay by time is a caller that merges the two in the order of
// their timestamps. See package trace.
package engine
