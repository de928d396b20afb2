// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// The reasons of the Warning events on bound pods. With two replicas each records
// them: a plugin is not told which one leads, and a warning too many does no harm.
const (
	// reasonUnrecorded is an unrecorded pod: bound by something else, with devices of which
	// nobody knows.
	reasonUnrecorded = "GPUDevicesUnknown"
	// reasonConflict is a pod that shares a device of which more is held than
	// there is.
	reasonConflict = "GPUDeviceConflict"
	// reasonEdited is a pod whose record was changed after the Binding wrote it.
	reasonEdited = "GPURecordChanged"
	// reasonBindingUnknown is a pod of which it is not known whether it was bound.
	reasonBindingUnknown = "GPUBindingInDoubt" // older than its name here

	// reasonNotFenced and reasonTooLarge are pods that are kept back (keptPods). An event that
	// differs from another one in its text alone would be taken for that.
	reasonNotFenced = "GPUPodNotFenced"
	reasonTooLarge  = "GPUPodTooLarge"
	// reasonReplaced is a pod that another scheduler process has taken over.
	reasonReplaced = "GPUSchedulerReplaced"

	// actionTracking and actionBinding are the events' actions: what the scheduler
	// was doing.
	actionTracking = "TrackingDevices"
	actionBinding  = "Binding"
)

// report tells of what is wrong with a pod that was seen bound for the first time.
func (c *allocationCache) report(logger klog.Logger, pod *corev1.Pod, s observation) {
	if !s.first {
		return
	}
	if s.problem != nil {
		logger.Info("Pod uses devices that are not recorded, its node takes no new shares until it is gone", "pod", klog.KObj(pod), "node", klog.KRef("", pod.Spec.NodeName), "problem", s.problem.Error())
		unrecordedPods.Inc()
		c.warn(pod, nil, reasonUnrecorded, actionTracking, fmt.Sprintf(
			"The pod uses devices of node %q and %s: the node takes no new shares until the pod is gone. Delete it and let Berth schedule it (spec.schedulerName).",
			pod.Spec.NodeName, s.problem))
		return
	}
	if s.overcommitted == 0 {
		return
	}
	devices := indexes(s.overcommitted)
	var conflicting []string
	for _, other := range s.conflicting {
		conflicting = append(conflicting, klog.KObj(other).String())
	}
	slices.Sort(conflicting)
	logger.Info("More is held of a device than it has", "node", klog.KRef("", pod.Spec.NodeName), "devices", devices, "pods", conflicting)
	conflicts.Inc()
	for _, other := range s.conflicting {
		// Events that differ in nothing but their text are taken for one: that the
		// third pod came is another event on the first because it is related to it.
		related := pod
		if other.UID == pod.UID {
			related = nil
		}
		why := "two schedulers bound pods at the same time. No new pods are placed on the device. Delete one of the pods."
		if !s.certain {
			why = "the node's label for the memory of its devices has become less since they were bound, or two schedulers bound pods at the same time. The device takes nothing new until enough of it is free. If the devices are what they were, nothing needs to be done."
		}
		c.warn(other, related, reasonConflict, actionTracking, fmt.Sprintf(
			"Device(s) %s of node %q are allocated beyond their capacity, to pods %s: %s", devices, pod.Spec.NodeName, strings.Join(conflicting, ", "), why))
	}
}

// reportEdit tells of a record that was changed.
func (c *allocationCache) reportEdit(logger klog.Logger, pod *corev1.Pod) {
	logger.Info("The record of a pod's devices was changed, the first one counts", "pod", klog.KObj(pod))
	recordEdits.Inc()
	c.warn(pod, nil, reasonEdited, actionTracking, fmt.Sprintf(
		"An annotation %s or %s* was changed after the pod was bound. The pod keeps its first allocation: restore the annotation, or delete the pod.",
		names.GPUAssignedAnnotation, names.GPUDevicesAnnotationPrefix))
}

// warn records an event on a node or a pod, by the recorder of the pod's profile or else
// of any. related is a pod that it is about too, or nil.
func (c *allocationCache) warn(about runtime.Object, related *corev1.Pod, reason, action, note string) {
	var recorder events.EventRecorder
	for _, pl := range c.sharedBy() {
		pod, _ := about.(*corev1.Pod)
		if recorder == nil || pod != nil && pl.handle.ProfileName() == pod.Spec.SchedulerName {
			recorder = pl.handle.EventRecorder()
		}
	}
	if recorder == nil {
		return // a simulation
	}
	var object runtime.Object // not a nil pointer
	if related != nil {
		object = related
	}
	recorder.Eventf(about, object, corev1.EventTypeWarning, reason, action, "%s", messages.Cut(note))
}

// recordChanged reports whether two versions of a pod differ in what its Binding
// wrote.
func recordChanged(old, updated *corev1.Pod) bool {
	if old.Spec.NodeName == "" {
		return false // this is the Binding
	}
	return recordDiffers(old.Annotations, updated.Annotations) || recordDiffers(updated.Annotations, old.Annotations)
}

// boundAnew reports whether a pod that was bound is no longer, or by another Binding: etcd was
// restored from before it. A Binding sets the condition PodScheduled, and an edit does not.
func boundAnew(old, updated *corev1.Pod) bool {
	return old.Spec.NodeName != "" && (old.Spec.NodeName != updated.Spec.NodeName || recordChanged(old, updated) && !scheduledAt(old).Equal(scheduledAt(updated)))
}

// scheduledAt is when a pod was bound, nil if it does not say.
func scheduledAt(pod *corev1.Pod) *metav1.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i].LastTransitionTime
		}
	}
	return nil
}

// recordDiffers reports whether b lacks or changes an annotation of ours in a.
func recordDiffers(a, b map[string]string) bool {
	for key, value := range a {
		if key != names.GPUAssignedAnnotation && !strings.HasPrefix(key, names.GPUDevicesAnnotationPrefix) {
			continue
		}
		if other, ok := b[key]; !ok || other != value {
			return true
		}
	}
	return false
}

// indexes lists them as "0,1".
func indexes(devices device.Set) string {
	var parts []string
	for i := range devices.All() {
		parts = append(parts, strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}

// The reasons of the Warning events on nodes.
const (
	// reasonNodeRefused is a node that says of its devices what contradicts itself or
	// cannot be understood.
	reasonNodeInvalid = "GPUNodeRefused"
	// reasonNodeIgnored is a node with a label or annotation of ours that has no effect.
	reasonNodeIgnored = "GPUNodeSettingIgnored"
	// reasonNotDrained is a node that was switched to sharing or back while pods used its
	// devices.
	reasonNotDrained = "GPUNodeNotDrained"
	// reasonUUIDsChanged is a node whose list of UUIDs changed while pods used its devices.
	reasonUUIDsChanged = "GPUListChanged"

	actionReading = "ReadingNode"
)

// reportNode tells of what is wrong with a version of a node and was not wrong with the
// one before, which is nil for the first.
func (c *allocationCache) reportNode(logger klog.Logger, old, node *corev1.Node) {
	told := map[string]bool{}
	tell := func(reason, note string) {
		if note == "" || told[note] {
			return
		}
		told[note] = true
		logger.Info("Node needs attention", "node", klog.KObj(node), "reason", reason, "note", note)
		c.warn(node, nil, reason, actionReading, note)
	}
	for _, pl := range c.sharedBy() {
		now := device.ParseNode(node, pl.nodeKeys)
		before := &device.Node{}
		if old != nil {
			before = device.ParseNode(old, pl.nodeKeys)
		}
		if now.Invalid.Reason != "" && now.Invalid != before.Invalid {
			tell(reasonNodeInvalid, "The node takes no pods with shares of its devices and none of a device plugin: "+now.Invalid.Error())
		}
		if old != nil {
			tell(reasonNotDrained, c.notDrained(pl, before, now, node.Name))
			tell(reasonUUIDsChanged, c.uuidsChanged(before, now, node.Name))
		}
	}
	if note := ineffectiveSettings(node); note != "" && (old == nil || note != ineffectiveSettings(old)) {
		tell(reasonNodeIgnored, note)
	}
}

// nodeDevicesMayDiffer reports whether two versions of a node may differ in what they say of its
// devices. Most differ in heartbeats alone.
func nodeDevicesMayDiffer(old, node *corev1.Node) bool {
	return !maps.Equal(old.Labels, node.Labels) || !maps.Equal(old.Annotations, node.Annotations) ||
		!apiequality.Semantic.DeepEqual(old.Status.Capacity, node.Status.Capacity) || !apiequality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable)
}

// ineffectiveSettings says which of our labels and annotations of the node have no effect.
func ineffectiveSettings(node *corev1.Node) string {
	settings := device.IneffectiveSettings(node)
	notes := make([]string, 0, len(settings))
	for _, setting := range settings {
		notes = append(notes, setting.String())
	}
	return strings.Join(notes, "; ")
}

// notDrained says which pods go on using the devices of a node that was switched to
// sharing, or back, or nothing.
func (c *allocationCache) notDrained(pl *GPUDevice, before, now *device.Node, node string) string {
	shared := now.Kind == device.NodeShared
	if shared == (before.Kind == device.NodeShared) || slices.ContainsFunc([]*device.Node{before, now}, func(n *device.Node) bool {
		return n.Kind == device.NodeInvalid || n.Kind == device.NodeInOtherPool
	}) {
		return ""
	}
	var pods []string
	for _, obj := range c.pods.GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Spec.NodeName != node || podphase.IsTerminated(pod) {
			continue
		}
		if shared && (pl.nodeKeys.HasDevicePluginRequest(pod) || pl.mayClaimDevices(pod)) || !shared && device.HasShareRequest(pod) {
			pods = append(pods, klog.KObj(pod).String())
		}
	}
	switch {
	case len(pods) == 0:
		return ""
	case shared:
		return fmt.Sprintf("The node was switched to sharing while %s use its devices, given by a device plugin or a ResourceClaim: it takes no shares until they are gone. Drain a node before switching it.", listed(pods))
	default:
		return fmt.Sprintf("The node was switched from sharing while %s hold shares of its devices: it takes no pods of a device plugin or of a ResourceClaim for devices until they are gone. Drain a node before switching it.", listed(pods))
	}
}

// uuidsChanged says what becomes of the pods that were given devices by UUID on a node
// that lists others now, or nothing.
func (c *allocationCache) uuidsChanged(before, now *device.Node, node string) string {
	if now.Kind != device.NodeShared || slices.Equal(before.UUIDs, now.UUIDs) {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var unknown, missing []string
	allocations := 0
	for _, h := range c.byNode[node] {
		if h.allocation == nil || !h.allocation.ByUUID() {
			continue
		}
		allocations++
		if _, err := h.allocation.On(now); err != nil {
			unknown = append(unknown, klog.KObj(h.pod).String())
		} else if uuids := h.allocation.Missing(now); len(uuids) > 0 {
			missing = append(missing, fmt.Sprintf("%s (%s)", klog.KObj(h.pod), strings.Join(uuids, ",")))
		}
	}
	switch {
	case allocations == 0:
		return ""
	case len(unknown) > 0:
		return fmt.Sprintf("Annotation %s was removed while %s have devices by UUID: the node takes no shares until they are gone, or the annotation is back.", names.GPUUUIDsAnnotation, listed(unknown))
	case len(missing) > 0:
		return fmt.Sprintf("Annotation %s was changed, and no longer lists devices that are allocated to pods: %s. The devices that it lists do not count as allocated to them.", names.GPUUUIDsAnnotation, listed(missing))
	default:
		return fmt.Sprintf("Annotation %s was changed while %d pod(s) have devices by UUID: their devices are counted at their present positions in the list.", names.GPUUUIDsAnnotation, allocations)
	}
}

// maxListedPods bounds the text of an event.
const maxListedPods = 5

// listed writes some of the names.
func listed(pods []string) string {
	slices.Sort(pods)
	more := ""
	if len(pods) > maxListedPods {
		more = fmt.Sprintf(" and %d more", len(pods)-maxListedPods)
		pods = pods[:maxListedPods]
	}
	return "pod(s) " + strings.Join(pods, ", ") + more
}
