// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// EventsToRegister returns the events of pods and nodes that can make a pod
// schedulable that the plugin refused. Services, EndpointSlices and namespaces
// wake pods by themselves: see the package comment.
func (pl *Colocation) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		// Add: a peer gets a node. Update: a pod becomes a peer by its labels, or is
		// no longer counted by maxPerNode; or the pending pod itself is corrected, and
		// there is no event for annotations alone. Delete: a pod that maxPerNode
		// counted goes, or the last peer of a Service that the pod itself is behind.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn: pl.isSchedulableAfterPodChange,
		},
		// A new node may be where peers are, or be the first with a topology key; so
		// may one whose labels changed. Pods on a node that is gone are no peers. A
		// taint never matters here; but the scheduler adds UpdateNodeTaint by itself to
		// a plugin that registers Add without it, with a hint that always wakes the
		// pod, so it is registered with our own (kubernetes/kubernetes#109437).
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
	}, nil
}

// isSchedulableAfterPodChange queues the pod if it was itself corrected, or if
// because of another pod the index answers otherwise than in the pod's last attempt
// such that it may have a node, or if one that maxPerNode counts is gone.
//
// The index is brought up to the event before the answer is given: PreFilter must
// not see less than what woke the pod. It is compared with what it answered in that
// attempt and not with what it was before the event, which another goroutine may have
// told it of already: so the answer is the same however often and however late it is
// asked for.
func (pl *Colocation) isSchedulableAfterPodChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.instance.podEventSeen(old, updated)
	r := pl.instance.pending.refusal(pod.UID)
	if updated != nil && updated.UID == pod.UID {
		if old == nil || pl.asksOtherwise(old, updated) || r != nil && r.becomesFirst(updated) {
			logger.V(5).Info("Pod was updated, and asks for something else now", "pod", klog.KObj(pod))
			return fwk.Queue, nil
		}
		logger.V(5).Info("Pod was updated, but asks for the same", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	if !placedDiffers(old, updated) {
		return fwk.QueueSkip, nil
	}
	switch {
	case r == nil:
		logger.V(5).Info("Another pod changed, and what the pod was refused for is not known", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	case !r.understood:
		logger.V(5).Info("Another pod changed, but what the pod asks for is not understood", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	case leavesRoom(pod, &r.request, old, updated) || r.peerMatters(placeNow(updated)):
		logger.V(5).Info("Another pod changed, and the pod may fit now", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	}
	logger.V(5).Info("Another pod changed, but that does not help the pod", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}

// asksOtherwise reports whether two versions of a pending pod differ in what the
// plugin reads of it.
func (pl *Colocation) asksOtherwise(old, updated *corev1.Pod) bool {
	for _, key := range readAnnotations {
		before, had := old.Annotations[key]
		after, has := updated.Annotations[key]
		if had != has || before != after {
			return true
		}
	}
	return pl.policy.selectsOtherwise(old, updated)
}

// becomesFirst reports whether the pod, as it is now, is the first one behind a
// Service that it waits for, and was not in its last attempt.
func (r *refusal) becomesFirst(updated *corev1.Pod) bool {
	for i := range r.required {
		q := &r.required[i]
		if !q.first && isFirst(r.pl.viewOf(updated, q), q.key, updated) {
			return true
		}
	}
	return false
}

// placedDiffers reports whether two versions of another pod, either nil, differ in
// where it counts or for whom. It spares the rest for the bulk of the events, which
// are about status.
func placedDiffers(old, updated *corev1.Pod) bool {
	if old == nil || updated == nil || old.UID != updated.UID {
		return placeOf(old) != "" || placeOf(updated) != ""
	}
	return placeOf(old) != placeOf(updated) || placeOf(updated) != "" && !maps.Equal(old.Labels, updated.Labels)
}

// placeOf returns the node where the pod counts: its own, or that for which it is
// nominated. It is empty for a pod that is nil, terminating or terminated.
func placeOf(pod *corev1.Pod) string {
	switch {
	case pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return ""
	case pod.Spec.NodeName != "":
		return pod.Spec.NodeName
	default:
		return pod.Status.NominatedNodeName
	}
}

// placeNow is placeOf for a pod that is bound; a nomination is no place for a peer.
func placeNow(pod *corev1.Pod) string {
	if pod == nil || pod.Spec.NodeName == "" {
		return ""
	}
	return placeOf(pod)
}

// peerMatters reports whether a change of another pod, or of the peers on the node of
// this name, empty for none, gives the refused pod a node that it may not have had:
// all that it requires can be met; and where the node is, a peer has come where there
// was none in the pod's last attempt, or the last one elsewhere has gone, and the pod
// is the first of its group now.
func (r *refusal) peerMatters(node string) bool {
	better := false
	for i := range r.required {
		q := &r.required[i]
		now := r.pl.viewOf(r.pod, q)
		if !satisfiable(now, q.key, r.pod) {
			return false
		}
		switch first := isFirst(now, q.key, r.pod); {
		case better || q.first:
		case first:
			better = true
		case node != "":
			value, ok := r.pl.instance.index.NodeLabel(node, q.key)
			better = ok && now.Within(q.key, value) > 0 && (q.view == nil || q.view.Within(q.key, value) == 0)
		}
	}
	return better
}

// leavesRoom reports whether a pod that maxPerNode counted counts no longer.
func leavesRoom(pod *corev1.Pod, r *request, old, updated *corev1.Pod) bool {
	for i := range r.limits {
		l := &r.limits[i]
		if placeOf(old) != "" && l.counts(old, pod.Namespace) && (placeOf(updated) != placeOf(old) || !l.counts(updated, pod.Namespace)) {
			return true
		}
	}
	return false
}

// isSchedulableAfterNodeChange queues the pod if the node is acceptable now and was
// not in the pod's last attempt, or was not there; or if it has peers that count
// elsewhere now, such that the pod may have a node.
func (pl *Colocation) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.instance.nodeEventSeen(old, updated)
	if old != nil && updated != nil && maps.Equal(old.Labels, updated.Labels) {
		logger.V(5).Info("Node was updated, but not its labels", "pod", klog.KObj(pod), "node", klog.KObj(updated))
		return fwk.QueueSkip, nil
	}
	switch r := pl.instance.pending.refusal(pod.UID); {
	case r == nil:
		logger.V(5).Info("Node changed, and what the pod was refused for is not known", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	case !r.understood:
		logger.V(5).Info("Node changed, but what the pod asks for is not understood", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	case !r.nodeMatters(old, updated):
		logger.V(5).Info("Node changed, but that does not help the pod", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node changed, and the pod may fit now", "pod", klog.KObj(pod))
	return fwk.Queue, nil
}

// nodeMatters reports whether a change of a node from old to updated, either nil,
// may help the pod.
func (r *refusal) nodeMatters(old, updated *corev1.Node) bool {
	if updated == nil {
		return r.peerMatters("")
	}
	if r.peerMatters(updated.Name) {
		return true
	}
	return r.accepts(updated, false) && (old == nil || !r.accepts(old, true))
}

// accepts reports whether all that the pod requires allows the node: by what the index
// answers now, or by what it answered in the pod's last attempt.
func (r *refusal) accepts(node *corev1.Node, then bool) bool {
	for i := range r.required {
		q := &r.required[i]
		view, first := q.view, q.first
		if !then {
			view = r.pl.viewOf(r.pod, q)
			first = isFirst(view, q.key, r.pod)
		}
		if !q.accepts(view, first, node.Labels) {
			return false
		}
	}
	return true
}
