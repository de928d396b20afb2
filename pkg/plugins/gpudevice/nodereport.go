// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/eventnote"
)

// The reasons of the Warning events on nodes.
const (
	// reasonNodeRefused is a node that says of its devices what contradicts itself or
	// cannot be understood.
	reasonNodeRefused = "GPUNodeRefused"
	// reasonNodeIgnored is a node with a label or annotation of ours that has no effect.
	reasonNodeIgnored = "GPUNodeSettingIgnored"
	// reasonNotDrained is a node that was switched to sharing or back while pods used its
	// devices.
	reasonNotDrained = "GPUNodeNotDrained"
	// reasonListChanged is a node whose list of UUIDs changed while pods used its devices.
	reasonListChanged = "GPUListChanged"

	actionReading = "ReadingNode"
)

// reportNode tells of what is wrong with a version of a node and was not wrong with the
// one before, which is nil for the first.
func (l *ledger) reportNode(logger klog.Logger, old, node *corev1.Node) {
	l.mu.Lock()
	members := l.members
	l.mu.Unlock()
	told := map[string]bool{}
	tell := func(reason, note string) {
		if note == "" || told[note] {
			return
		}
		told[note] = true
		logger.Info("Node was found in need of attention", "node", klog.KObj(node), "reason", reason, "note", note)
		l.warnNode(node, reason, note)
	}
	for _, member := range members {
		now := device.ParseNode(node, member.nodeKeys)
		before := &device.Node{}
		if old != nil {
			before = device.ParseNode(old, member.nodeKeys)
		}
		if now.Invalid.Reason != "" && now.Invalid != before.Invalid {
			tell(reasonNodeRefused, "The node takes no pods with shares of its devices and none of a device plugin: "+now.Invalid.Error())
		}
		if old != nil {
			tell(reasonNotDrained, l.notDrained(member, before, now, node.Name))
			tell(reasonListChanged, l.listChanged(before, now, node.Name))
		}
	}
	if note := ignored(node); note != "" && (old == nil || note != ignored(old)) {
		tell(reasonNodeIgnored, note)
	}
}

// saysOtherwise reports whether two versions of a node may differ in what they say of its
// devices. Most differ in heartbeats alone.
func saysOtherwise(old, node *corev1.Node) bool {
	return !maps.Equal(old.Labels, node.Labels) || !maps.Equal(old.Annotations, node.Annotations) ||
		!apiequality.Semantic.DeepEqual(old.Status.Capacity, node.Status.Capacity) || !apiequality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable)
}

// ignored says which of our labels and annotations of the node have no effect.
func ignored(node *corev1.Node) string {
	var notes []string
	if value, ok := node.Annotations[names.GPUSharingLabel]; ok {
		notes = append(notes, fmt.Sprintf("annotation %s=%q has no effect: it must be a label", names.GPUSharingLabel, value))
	}
	for _, key := range []string{names.GPUCordonedAnnotation, names.GPUUUIDsAnnotation} {
		if value, ok := node.Labels[key]; ok {
			notes = append(notes, fmt.Sprintf("label %s=%q has no effect: it must be an annotation", key, value))
		}
		if _, ok := node.Annotations[key]; ok && node.Labels[names.GPUSharingLabel] != "true" {
			notes = append(notes, fmt.Sprintf("annotation %s has no effect without label %s=true", key, names.GPUSharingLabel))
		}
	}
	return strings.Join(notes, "; ")
}

// notDrained says which pods go on using the devices of a node that was switched to
// sharing, or back, or nothing.
func (l *ledger) notDrained(pl *GPUDevice, before, now *device.Node, node string) string {
	shared := now.Kind == device.NodeShared
	if shared == (before.Kind == device.NodeShared) || before.Kind == device.NodeInvalid || now.Kind == device.NodeInvalid {
		return ""
	}
	var pods []string
	for _, obj := range l.pods.GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Spec.NodeName != node || isTerminated(pod) {
			continue
		}
		if shared && (pl.asksForOther(pod) || pl.mayClaimDevices(pod)) || !shared && asksForShares(pod) {
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

// listChanged says what becomes of the pods that were given devices by UUID on a node
// that lists others now, or nothing.
func (l *ledger) listChanged(before, now *device.Node, node string) string {
	if now.Kind != device.NodeShared || slices.Equal(before.UUIDs, now.UUIDs) {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var unknown, missing []string
	allocations := 0
	for _, h := range l.byNode[node] {
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
		return fmt.Sprintf("Annotation %s was removed while %s hold devices by UUID: the node takes no shares until they are gone, or the annotation is back.", names.GPUUUIDsAnnotation, listed(unknown))
	case len(missing) > 0:
		return fmt.Sprintf("Annotation %s was changed, and does not list devices that pods hold: %s. What is listed does not count as held by them.", names.GPUUUIDsAnnotation, listed(missing))
	default:
		return fmt.Sprintf("Annotation %s was changed while %d pod(s) hold devices by UUID: what they hold is counted where the list has it now.", names.GPUUUIDsAnnotation, allocations)
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

// warnNode records an event on the node, by the recorder of any profile.
func (l *ledger) warnNode(node *corev1.Node, reason, note string) {
	l.mu.Lock()
	members := l.members
	l.mu.Unlock()
	if len(members) == 0 {
		return
	}
	if recorder := members[0].handle.EventRecorder(); recorder != nil {
		recorder.Eventf(node, nil, corev1.EventTypeWarning, reason, actionReading, "%s", eventnote.Cut(note))
	}
}
