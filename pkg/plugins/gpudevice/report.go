// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/eventnote"
)

// The reasons of the Warning events on bound pods. With two replicas each records
// them: a plugin is not told which one leads, and a warning too many does no harm.
const (
	// reasonUnrecorded is a pod that was bound by something else, and uses devices
	// of which nobody knows.
	reasonUnrecorded = "GPUDevicesUnknown"
	// reasonConflict is a pod that shares a device of which more is held than
	// there is.
	reasonConflict = "GPUDeviceConflict"
	// reasonEdited is a pod whose record was changed after the Binding wrote it.
	reasonEdited = "GPURecordChanged"
	// reasonBindingUnknown is a pod of which it is not known whether it was bound.
	reasonBindingUnknown = "GPUBindingInDoubt"

	// actionTracking and actionBinding are the events' actions: what the scheduler
	// was doing.
	actionTracking = "TrackingDevices"
	actionBinding  = "Binding"
)

// report tells of what is wrong with a pod that was seen bound for the first time.
func (l *ledger) report(logger klog.Logger, pod *corev1.Pod, s observation) {
	if !s.first {
		return
	}
	if s.problem != nil {
		logger.Info("Pod uses devices that are not recorded, its node takes no new shares until it is gone", "pod", klog.KObj(pod), "node", klog.KRef("", pod.Spec.NodeName), "problem", s.problem.Error())
		unrecordedPods.Inc()
		l.warn(pod, nil, reasonUnrecorded, actionTracking, fmt.Sprintf(
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
		why := "two schedulers bound at once. The device takes nothing new. Delete one of the pods."
		if !s.certain {
			why = "the node's label for the memory of its devices has become less since they were bound, or two schedulers bound at once. The device takes nothing new until enough of it is free. If the devices are what they were, nothing needs to be done."
		}
		l.warn(other, related, reasonConflict, actionTracking, fmt.Sprintf(
			"More is held of device(s) %s of node %q than there is, by pods %s: %s", devices, pod.Spec.NodeName, strings.Join(conflicting, ", "), why))
	}
}

// reportEdit tells of a record that was changed.
func (l *ledger) reportEdit(logger klog.Logger, pod *corev1.Pod) {
	logger.Info("The record of a pod's devices was changed, the first one counts", "pod", klog.KObj(pod))
	recordEdits.Inc()
	l.warn(pod, nil, reasonEdited, actionTracking, fmt.Sprintf(
		"An annotation %s or %s* was changed after the pod was bound. What the pod was given at first stays taken, and nothing else is: restore the annotation, or delete the pod.",
		names.GPUAssignedAnnotation, names.GPUDevicesAnnotationPrefix))
}

// warn records an event on the pod, by the recorder of its profile or, for a pod
// of another scheduler, of any. related is another pod that it is about, or nil.
func (l *ledger) warn(pod, related *corev1.Pod, reason, action, note string) {
	l.mu.Lock()
	members := l.members
	l.mu.Unlock()
	if len(members) == 0 {
		return
	}
	handle := members[0].handle
	for _, member := range members {
		if member.handle.ProfileName() == pod.Spec.SchedulerName {
			handle = member.handle
		}
	}
	recorder := handle.EventRecorder()
	if recorder == nil {
		return // a simulation
	}
	var object runtime.Object // not a nil pointer
	if related != nil {
		object = related
	}
	recorder.Eventf(pod, object, corev1.EventTypeWarning, reason, action, "%s", eventnote.Cut(note))
}

// recordChanged reports whether two versions of a pod differ in what its Binding
// wrote.
func recordChanged(old, updated *corev1.Pod) bool {
	if old.Spec.NodeName == "" {
		return false // this is the Binding
	}
	return recordDiffers(old.Annotations, updated.Annotations) || recordDiffers(updated.Annotations, old.Annotations)
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
