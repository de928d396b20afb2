// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	corev1 "k8s.io/api/core/v1"
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
	// influence on plugins: the yardstick Random draws in a sequence of its own.
	Seed uint64
	// Parallelism is how many goroutines filter and score, at least 1. 0: one. The
	// result does not depend on it.
	Parallelism int
	// Preemption lets PostFilter plugins evict pods. The victims are deleted from
	// the cluster, and the pod is tried again at once.
	Preemption bool
	// Explain fills Result.Decision. It costs time and memory.
	Explain bool

	// extra are plugins of a test.
	extra frameworkruntime.Registry
}

// Outcome says what became of a pod.
type Outcome uint8

const (
	// Unschedulable is a pod that no node could take.
	Unschedulable Outcome = iota
	// Bound is a pod that was given a node.
	Bound
	// Gated is a pod that a PreEnqueue plugin keeps out of the queue, for example
	// because of its scheduling gates.
	Gated
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Bound:
		return "bound"
	case Gated:
		return "gated"
	default:
		return "unschedulable"
	}
}

// Result is what became of one pod.
type Result struct {
	// Pod is the pod as the API server would have it after the attempt: with
	// spec.nodeName and the annotations of its Binding if it was bound. It is
	// shared with the engine and must not be changed.
	Pod *corev1.Pod
	// Outcome is what became of it.
	Outcome Outcome
	// Node is the node it was bound to, or empty.
	Node string
	// Assigned is the annotation berth.dev/gpu-assigned of the Binding: which
	// devices each container was given. Empty for a pod without shares.
	Assigned string
	// Message says why the pod was not bound, in the words of the event that
	// kube-scheduler records ("0/3 nodes are available: …"). Empty if it was bound.
	Message string
	// Plugin is the plugin that refused the pod if one alone did, or empty.
	Plugin string
	// Evaluated is how many nodes were looked at, and Feasible how many of them
	// could take the pod. Scores are compared only where Feasible is above 1.
	Evaluated, Feasible int
	// Ties is how many of the feasible nodes had the best score; the node was drawn
	// among them.
	Ties int
	// Victims are the pods that were evicted for this one.
	Victims []*corev1.Pod
	// Decision is how the node was chosen; nil unless Options.Explain is set.
	Decision *Decision
}

// Decision is what a scheduling cycle found out on its way to a node.
type Decision struct {
	// Feasible are the nodes that passed all filters, in the order in which they
	// were found.
	Feasible []string
	// Scores are the weighted scores by node and plugin. Empty where nothing was
	// scored: with fewer than two feasible nodes, or without score plugins.
	Scores map[string]map[string]int64
	// Totals are the sums of the weighted scores by node.
	Totals map[string]int64
}
