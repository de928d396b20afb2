// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Options is what an Engine is built from.
type Options struct {
	// Config is the scheduler's configuration, as [LoadConfiguration] returns it.
	// It is not changed and may be shared by engines.
	Config *schedconfig.KubeSchedulerConfiguration
	// SchedulerName names the profile that schedules every pod, whatever
	// spec.schedulerName the pod has; no other profile is built. Empty: all are, each
	// pod is scheduled by the profile that it names, and a pod of another scheduler
	// is an error ([Engine.Handles] tells).
	SchedulerName string
	// Seed determines which of the nodes with equal scores is taken. It has no
	// influence on plugins: the baseline Random draws in a sequence of its own.
	Seed uint64
	// Parallelism is how many goroutines filter and score, at least 1. 0: one. The
	// result does not depend on it.
	Parallelism int
	// Preemption lets PostFilter plugins evict pods. The victims are deleted from
	// the cluster, and the pod is tried again at once.
	Preemption bool

	// extra are plugins of a test.
	extra frameworkruntime.Registry
}

// Result is what became of one pod.
type Result struct {
	// Pod is the pod as the API server would have it after the attempt: with
	// spec.nodeName and the annotations of its Binding if it was bound. It is
	// shared with the engine and must not be changed.
	Pod *corev1.Pod
	// Node is the node it was bound to; empty if no node could take it, or if a
	// PreEnqueue plugin keeps it out of the queue, for example because of its
	// scheduling gates.
	Node string
	// Proposed is the node that was found for a member of a PodGroup that was not bound,
	// because too few other members found one. Members behind the one with which that was
	// clear were not tried, and have none.
	Proposed string
	// Message says why the pod was not bound, in the words of the event that
	// kube-scheduler records ("0/3 nodes are available: …"). Empty if it was bound.
	Message string
	// Evaluated is how many nodes were looked at, and Feasible how many of them
	// could take the pod.
	Evaluated, Feasible int
	// Scores are the weighted scores of the feasible nodes. Empty where nothing was
	// scored: with fewer than two feasible nodes, or without score plugins.
	Scores []fwk.NodePluginScores
	// Victims are the pods that were evicted for this one.
	Victims []*corev1.Pod
}
