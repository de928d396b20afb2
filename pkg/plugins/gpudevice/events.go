// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// EventsToRegister returns the events that can make a pod schedulable that the
// plugin refused.
func (pl *GPUDevice) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		// A new node may have devices. GPU feature discovery labels a node after it
		// has joined, and whoever shares it does so by a label. A device is
		// uncordoned by an annotation. A node loses its device-plugin resource in
		// allocatable, and may be shared then. A taint never matters here; but the
		// scheduler adds UpdateNodeTaint by itself to a plugin that registers Add
		// without it, with a hint that always wakes the pod, so it is registered
		// with our own (kubernetes/kubernetes#109437).
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.Node,
				ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAnnotation | fwk.UpdateNodeAllocatable | fwk.UpdateNodeTaint,
			},
			QueueingHintFn: pl.isSchedulableAfterNodeChange,
		},
		// A pod with devices, whoever gave them, goes, or has terminated (the scheduler's informer leaves
		// out terminated pods, so that is a deletion too), or was assumed and is
		// given up, or is not nominated for its node any more: all of them are told as
		// a deletion. Resources of ours cannot be scaled down in place.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete},
			QueueingHintFn: pl.isSchedulableAfterPodDeleted,
		},
		// The pending pod's own annotations about devices are corrected. There is no
		// event for annotations alone. Its containers' limits cannot be changed.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update},
			QueueingHintFn: pl.isSchedulableAfterPodUpdate,
		},
	}
	if pl.handle.SharedDRAManager() != nil {
		// A DRA driver does not publish the devices of a shared node any more.
		events = append(events, fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Update | fwk.Delete},
			QueueingHintFn: pl.isSchedulableAfterResourceSliceChange,
		})
	}
	return events, nil
}

// isSchedulableAfterNodeChange queues the pod if the node could take it when it is
// empty, and could not before or has become larger. That there is room is not
// asked: the pods on the node are not known here.
func (pl *GPUDevice) isSchedulableAfterNodeChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	oldNode, newNode, err := util.As[*corev1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	s, err := pl.parse(pod)
	if err != nil {
		logger.V(5).Info("Node was created or updated, but the pod can never be scheduled", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil //nolint:nilerr // the pod is wrong, and the hint has an answer
	}
	now := device.ParseNode(newNode, pl.nodeKeys)
	if !s.admits(now) {
		logger.V(5).Info("Node was created or updated, but it is refused", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
		return fwk.QueueSkip, nil
	}
	if oldNode != nil {
		before := device.ParseNode(oldNode, pl.nodeKeys)
		if s.admits(before) && !hasGrown(before, now) {
			logger.V(5).Info("Node was updated, but its devices are as before", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
			return fwk.QueueSkip, nil
		}
	}
	logger.V(5).Info("Node was created or updated, and may have room now", "pod", klog.KObj(pod), "node", klog.KObj(newNode))
	return fwk.Queue, nil
}

// hasGrown reports whether a share may fit now that did not before: there are
// more devices, they have other memory (of which what pods hold is derived), others are
// listed, or one was uncordoned.
func hasGrown(before, now *device.Node) bool {
	return now.Devices > before.Devices || now.MemoryMiB != before.MemoryMiB || before.Cordoned&^now.Cordoned != 0 || !slices.Equal(before.UUIDs, now.UUIDs)
}

// isSchedulableAfterPodDeleted queues the pod if it waits for devices and the pod that
// is gone used some, or was nominated for some, on a node that the pending pod could
// use: a share waits for shares, and on a shared node for any use of devices; all others
// wait, here, for shares alone.
//
// The node is looked up as it is now. If the pod that waits was refused by an older version,
// an event of its own has said that it changed.
func (pl *GPUDevice) isSchedulableAfterPodDeleted(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	node := gone.Spec.NodeName
	if node == "" {
		node = gone.Status.NominatedNodeName
	}
	if node == "" || !pl.usesDevices(gone) {
		logger.V(5).Info("Pod was deleted, but it used no device", "pod", klog.KObj(pod), "deletedPod", klog.KObj(gone))
		return fwk.QueueSkip, nil
	}
	s, err := pl.parse(pod)
	if err != nil || s.isWithoutDevices() || s.podRequest.Request.Kind != device.RequestShares && !device.HasShareRequest(gone) {
		logger.V(5).Info("Pod with devices was deleted, but that is not waited for", "pod", klog.KObj(pod), "deletedPod", klog.KObj(gone))
		return fwk.QueueSkip, nil //nolint:nilerr // an invalid pod waits for its own change alone
	}
	if now := pl.nodeNow(node); now != nil && !s.admits(now) {
		logger.V(5).Info("Pod with devices was deleted, but its node is refused", "pod", klog.KObj(pod), "deletedPod", klog.KObj(gone), "node", klog.KRef("", node))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("Pod with devices was deleted, and its node may have room now", "pod", klog.KObj(pod), "deletedPod", klog.KObj(gone), "node", klog.KRef("", node))
	return fwk.Queue, nil
}

// isSchedulableAfterResourceSliceChange queues the pod if it waits for a share, or for a
// node without devices, and the devices of a node are not published by a DRA driver any more.
func (pl *GPUDevice) isSchedulableAfterResourceSliceChange(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*resourcev1.ResourceSlice](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	pl.publishedSlices.observe(old, updated)
	before := pl.claims.NodesOfSlice(old)
	// Under Forbid, a node whose devices were published is one for pods without devices now.
	waits := device.HasShareRequest(pod) || pl.nonGPUPods == config.NonGPUPodsForbid
	if before == nil || before.Equal(pl.claims.NodesOfSlice(updated)) || !waits {
		logger.V(5).Info("ResourceSlice was changed, but no device that is waited for was taken back", "pod", klog.KObj(pod))
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("The devices of some node are not published in a ResourceSlice any more", "pod", klog.KObj(pod), "slice", klog.KObj(old))
	return fwk.Queue, nil
}

// isSchedulableAfterPodUpdate queues the pod if its own constraints on devices
// have changed.
func (pl *GPUDevice) isSchedulableAfterPodUpdate(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, updated, err := util.As[*corev1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if updated == nil || updated.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	for _, key := range []string{names.GPUModelAnnotation, names.GPUMinMemoryAnnotation} {
		if plugin.AnnotationDiffers(old.GetAnnotations(), updated.Annotations, key) {
			logger.V(5).Info("Pod's constraints on devices were changed", "pod", klog.KObj(pod), "annotation", key)
			return fwk.Queue, nil
		}
	}
	logger.V(5).Info("Pod was updated, but not its constraints on devices", "pod", klog.KObj(pod))
	return fwk.QueueSkip, nil
}
