// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

const (
	// Name is the name of the plugin in a profile.
	Name = "Example"
	// ClosedLabel is the key of the label of the nodes that are refused. A plugin of
	// Berth has its keys in pkg/apis/names.
	ClosedLabel = "example.com/closed"

	// reasonClosed is what users read of a node that is refused. It begins with
	// "node(s)", because the scheduler puts the number of nodes before it, and
	// contains no percent sign, because the scheduler uses it as a format string.
	reasonClosed = "node(s) had label " + ClosedLabel
)

// Example is the plugin. Everything that a cycle needs is prepared in New.
type Example struct{}

var (
	_ fwk.FilterPlugin      = &Example{}
	_ fwk.EnqueueExtensions = &Example{}
	_ fwk.SignPlugin        = &Example{}
)

// New builds the plugin. It takes no arguments.
func New(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("want no args, got %T", args)
	}
	return &Example{}, nil
}

// Name returns the name of the plugin.
func (pl *Example) Name() string { return Name }

// Filter refuses closed nodes. It is called for every node in every cycle, by
// several goroutines at once: it takes no lock and allocates nothing for a node
// that passes. Evicting pods does not open a node, so the refusal is unresolvable.
func (pl *Example) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	if closed(nodeInfo.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonClosed)
	}
	return nil
}

// EventsToRegister returns what can make a refused pod schedulable: a node that is
// new, or whose labels change. Nothing else does, so nothing else wakes a pod.
func (pl *Example) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: pl.isSchedulableAfterNodeChange,
	}}, nil
}

// isSchedulableAfterNodeChange queues the pod if the node is open now and was not,
// or was not there. It runs under the queue's lock, for every pod that the plugin
// refused.
func (pl *Example) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldNode, newNode, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if closed(newNode) || oldNode != nil && !closed(oldNode) {
		logger.V(5).Info("Node was created or updated, but it is closed or was open before", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node was created or updated, and it is open now", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
	return fwk.Queue, nil
}

// SignPod returns what of the pod the verdict depends on: nothing. Without SignPod
// a plugin switches batching off for its whole profile.
func (pl *Example) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

func closed(node *corev1.Node) bool {
	_, ok := node.Labels[ClosedLabel]
	return ok
}
