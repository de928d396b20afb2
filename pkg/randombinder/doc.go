// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package randombinder is the smallest scheduler that is still safe to leave
// running: it watches the pending pods of its schedulerName, and binds each to
// a node drawn uniformly at random from those that may take it. It scores
// nothing. It is the baseline against which other schedulers are measured, and
// an example of what list, watch and bind need to be right.
//
// The life of a pod, as the binder sees it:
//
//	            event, back-off, wake
//	pending ────────────────────────────► chosen ──── bound ───► leaves the watch
//	   ▲ ▲                                 │  │ │
//	   │ └── refused (4xx): back-off ──────┘  │ └──── in doubt: back-off, then the
//	   │                                      │       same node again, or a look
//	   │                                      │       at the pod if that is gone
//	   └──────────── parked ◄─── no node ─────┘
//	 a node or a pod changes, or back-off
//
// Four things keep that right:
//
//   - One place, cluster, holds nodes, pending pods and what nodes hold, under
//     one mutex and fed by watch events alone. A pod is parked in the same
//     critical section that found no node for it, so a node event is either seen
//     by that decision or wakes the pod; none falls between.
//   - The API server binds a pod at most once: it refuses a Binding for a pod
//     that has a node, or another UID. A Binding whose answer is lost is sent
//     again for the same node. If that node no longer admits the pod, the API
//     server is asked instead, and the pod goes to another node only after the
//     API server has shown it without one. Until then what the pod takes stays
//     taken on the first.
//   - Informers start when this process leads, not before. Their first list is a
//     consistent read, so a new leader starts with everything that its
//     predecessor bound.
//   - Nothing is kept outside the API. A process that is killed loses no pod.
//
// Not considered, on purpose: priorities and preemption, pod affinity, topology
// spread, host ports, volumes, resource claims. See README.md.
package randombinder
