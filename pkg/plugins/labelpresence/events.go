// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// namespaceResource is how the scheduler watches a resource that is not among
// its built-in ones: <plural>.<version>.<group>, and the core group is empty.
const namespaceResource fwk.EventResource = "namespaces.v1."

// EventsToRegister returns the events that can make a pod schedulable that the
// plugin rejected.
func (pl *LabelPresence) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		// A new node may pass, and so may one whose labels or taints changed: the
		// taint of tenants' nodes counts. (Without tenancy no taint does; but the
		// scheduler adds UpdateNodeTaint by itself to a plugin that registers Add
		// without it, with a hint that always wakes the pod,
		// kubernetes/kubernetes#109437.)
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
	}
	if pl.policy.usesPodLabels() {
		// The pending pod's own labels may move it out of a rule's podSelector.
		// The other pod fields that are read do not change: the namespace, and the
		// owner and node affinity of a daemon pod, which its controller sets at
		// creation.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: pl.isSchedulableAfterPodLabelChange,
		})
	}
	if pl.policy.usesNamespaces() {
		// A namespace that was not known arrives, or its labels change: the pod
		// leaves a rule's namespaceSelector, or gets another tenant. Delete cannot
		// help a pod of the namespace.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: namespaceResource, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: pl.isSchedulableAfterNamespaceChange,
		})
	}
	return events, nil
}

// isSchedulableAfterNodeChange queues the pod if the node passes now and did not
// pass before, or was not there. That it did not pass is certain only of what
// this plugin looks at, but then another plugin rejected the node, and the pod is
// activated by that plugin's hint.
func (pl *LabelPresence) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldNode, newNode, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	selected := pl.policy.selectFor(pod)
	var facts namespaceFacts
	if selected.needsNamespace {
		var known bool
		if facts, known = pl.namespaces.index.get(pod.Namespace); !known {
			logger.V(5).Info("Node was created or updated, but the pod's namespace is not known yet", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
			return fwk.QueueSkip, nil
		}
	}
	c := pl.policy.constrain(selected, facts)
	if rejected := c.reject(newNode); rejected != nil {
		logger.V(5).Info("Node was created or updated, but it is rejected", "pod", klog.KObj(pod), "node", klog.KObj(newNode), "reason", rejected.reason)
		return fwk.QueueSkip, nil
	}
	if oldNode != nil && c.reject(oldNode) == nil {
		logger.V(5).Info("Node was updated, but it passed before too", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node was created or updated, and it passes now", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
	return fwk.Queue, nil
}

// isSchedulableAfterPodLabelChange queues the pod if it was itself relabelled
// and a rule does not select it any more.
func (pl *LabelPresence) isSchedulableAfterPodLabelChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldPod, newPod, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if newPod.UID != pod.UID {
		logger.V(5).Info("Another pod was relabelled", "pod", klog.KObj(pod), "updatedPod", klog.KObj(newPod))
		return fwk.QueueSkip, nil
	}
	after := pl.policy.selectFor(newPod).rules
	for _, i := range pl.policy.selectFor(oldPod).rules {
		if !slices.Contains(after, i) {
			logger.V(5).Info("Pod was relabelled, and a rule does not select it any more", "pod", klog.KObj(pod), "rule", i)
			return fwk.Queue, nil
		}
	}
	logger.V(5).Info("Pod was relabelled, but every rule that selected it still does", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}

// isSchedulableAfterNamespaceChange queues the pod if its namespace arrived, or
// changed such that a rule does not apply any more or the tenant is another one.
//
// The event's objects come from a dynamic informer, so they are read through the
// interface that all objects have. The index is told before the answer is given:
// PreFilter must not see less than the event that woke the pod.
func (pl *LabelPresence) isSchedulableAfterNamespaceChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[metav1.Object](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.namespaces.index.apply(old, updated)
	if updated == nil || updated.GetName() != pod.Namespace {
		return fwk.QueueSkip, nil
	}
	var before *namespaceFacts
	if old != nil {
		facts := pl.policy.factsOf(old.GetLabels())
		before = &facts
	}
	if !pl.policy.mayMakeSchedulable(pl.policy.selectFor(pod), before, pl.policy.factsOf(updated.GetLabels())) {
		logger.V(5).Info("Namespace was created or updated, but that does not change what the pod requires of a node",
			"pod", klog.KObj(pod), "namespace", klog.KRef("", pod.Namespace))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Namespace was created or updated, and the pod may fit now",
		"pod", klog.KObj(pod), "namespace", klog.KRef("", pod.Namespace))
	return fwk.Queue, nil
}
