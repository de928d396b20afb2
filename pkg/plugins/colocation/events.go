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

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// EventsToRegister returns the events of pods and nodes that can make a pod
// schedulable that the plugin refused. Services, EndpointSlices and namespaces
// wake pods by themselves: see the package comment.
func (pl *Colocation) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		// Add: a peer gets a node. Update: a pod becomes a peer by its labels, or is
		// no longer counted by maxPerNode; or the pending pod itself is corrected, and
		// there is no event for annotations alone. Delete: a pod that maxPerNode
		// counted goes, or the last peer, and then the Service binds nobody.
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

// isSchedulableAfterPodChange queues the pod if it was itself corrected, if
// another pod has become or ceased to be a peer such that it matters, or if one
// that maxPerNode counts is gone.
//
// The index is told before the answer is given: PreFilter must not see less than
// the event that woke the pod. A deletion it believes only where that is certain:
// the scheduler tells of some pods that live that they were deleted.
func (pl *Colocation) isSchedulableAfterPodChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.instance.index.ApplyPodEvent(old, updated)
	if updated != nil && updated.UID == pod.UID {
		if old == nil || pl.asksOtherwise(old, updated) {
			logger.V(5).Info("Pod was updated, and asks for something else now", "pod", klog.KObj(pod))
			return fwk.Queue, nil
		}
		logger.V(5).Info("Pod was updated, but asks for the same", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	if !placedDiffers(old, updated) {
		return fwk.QueueSkip, nil
	}
	r := pl.understood(pod)
	if r == nil {
		logger.V(5).Info("Another pod changed, but what the pod asks for is not understood", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	if pl.peerMatters(pod, r, old, updated) || leavesRoom(pod, r, old, updated) {
		logger.V(5).Info("Another pod changed, and the pod may fit now", "pod", klog.KObj(pod))
		return fwk.Queue, nil
	}
	logger.V(5).Info("Another pod changed, but that does not help the pod", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}

// understood returns what the pod asks for, or nil if that is not known: neither
// another pod nor a node can help it then.
func (pl *Colocation) understood(pod *corev1.Pod) *request {
	r, err := pl.policy.requestOf(pod, pl.instance.namespaceLabels)
	if err != nil {
		return nil
	}
	return &r
}

// binds reports whether a wish can be what the pod was refused for.
func (pl *Colocation) binds(w *wish) bool {
	return w.requireWithin != "" || pl.policy.waits
}

// asksOtherwise reports whether two versions of a pending pod differ in what the
// plugin reads.
func (pl *Colocation) asksOtherwise(old, updated *corev1.Pod) bool {
	if pl.policy.usesPodLabels && !maps.Equal(old.Labels, updated.Labels) {
		return true
	}
	for _, key := range []string{names.ColocateWithAnnotation, names.ColocatePreferAnnotation, names.ColocateRequireWithinAnnotation} {
		before, had := old.Annotations[key]
		after, has := updated.Annotations[key]
		if had != has || before != after {
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

// peerMatters reports whether a pod that changed from old to updated, either nil,
// has become a peer of a Service that binds or delays the pod, or was the last.
func (pl *Colocation) peerMatters(pod *corev1.Pod, r *request, old, updated *corev1.Pod) bool {
	for i := range r.wishes {
		w := &r.wishes[i]
		if !pl.binds(w) {
			continue
		}
		for _, s := range w.services {
			view, ok := pl.instance.index.Lookup(pod.Namespace, s.in(pod.Namespace), s.name)
			if !ok {
				continue
			}
			was, is := isPlacedPeer(view, old), isPlacedPeer(view, updated)
			if !was && is || was && !is && view.Total() == 0 && !pl.policy.waits {
				return true
			}
		}
	}
	return false
}

func isPlacedPeer(view *peers.View, pod *corev1.Pod) bool {
	return pod != nil && pod.Spec.NodeName != "" && view.IsPeer(pod)
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

// isSchedulableAfterNodeChange queues the pod if the node is acceptable now and
// was not, or was not there; or if it has peers of a Service that binds or delays
// the pod, which count elsewhere now.
func (pl *Colocation) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.instance.index.ApplyNode(old, updated)
	if old != nil && updated != nil && maps.Equal(old.Labels, updated.Labels) {
		logger.V(5).Info("Node was updated, but not its labels", "pod", klog.KObj(pod), "node", klog.KObj(updated))
		return fwk.QueueSkip, nil
	}
	r := pl.understood(pod)
	if r == nil {
		logger.V(5).Info("Node changed, but what the pod asks for is not understood", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	if !pl.nodeMatters(pod, r, old, updated) {
		logger.V(5).Info("Node changed, but that does not help the pod", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Node changed, and the pod may fit now", "pod", klog.KObj(pod))
	return fwk.Queue, nil
}

// nodeMatters reports whether a change of a node from old to updated, either nil,
// may help the pod.
func (pl *Colocation) nodeMatters(pod *corev1.Pod, r *request, old, updated *corev1.Node) bool {
	if updated != nil && old == nil && len(r.limits) > 0 {
		return true // a node with room
	}
	for i := range r.wishes {
		w := &r.wishes[i]
		if !pl.binds(w) {
			continue
		}
		before, had := labelOf(old, w.requireWithin)
		after, has := labelOf(updated, w.requireWithin)
		moved := had != has || before != after
		if has && moved {
			return true
		}
		if (moved || old == nil || updated == nil) && pl.peersMoved(pod, w, updated) {
			return true
		}
	}
	return false
}

// peersMoved reports whether the node, nil if it is gone, takes peers of the wish
// with it such that it matters.
func (pl *Colocation) peersMoved(pod *corev1.Pod, w *wish, updated *corev1.Node) bool {
	for _, s := range w.services {
		view, ok := pl.instance.index.Lookup(pod.Namespace, s.in(pod.Namespace), s.name)
		switch {
		case !ok:
		case updated != nil && view.OnNode(updated.Name) > 0:
			return true
		case updated == nil && view.Total() == 0 && !pl.policy.waits:
			// The pods of a node that is gone are no peers any more; without any, the
			// Service binds nobody.
			return true
		}
	}
	return false
}

// labelOf returns a label of the node, which may be nil; an empty key is none.
func labelOf(node *corev1.Node, key string) (string, bool) {
	if node == nil {
		return "", false
	}
	value, ok := node.Labels[key]
	return value, ok
}
