// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the events that schedulers write.
const (
	reasonScheduled        = "Scheduled"
	reasonFailedScheduling = "FailedScheduling"
)

// events are the events by the UID of the object that they are about, oldest first. The
// UID, not the name: an event outlives its pod, and a later pod may have the name.
type events map[types.UID][]*eventsv1.Event

func byPod(list []eventsv1.Event) events {
	e := events{}
	for i := range list {
		uid := list[i].Regarding.UID
		e[uid] = append(e[uid], &list[i])
	}
	for _, list := range e {
		slices.SortStableFunc(list, func(a, b *eventsv1.Event) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return e
}

// with returns the events about pod that have reason.
func (e events) with(pod *corev1.Pod, reason string) []*eventsv1.Event {
	return slices.DeleteFunc(slices.Clone(e[pod.UID]), func(event *eventsv1.Event) bool { return event.Reason != reason })
}

// why returns the API's own explanation for where pod is.
func (e events) why(pod *corev1.Pod) string {
	reason := reasonScheduled
	if pod.Spec.NodeName == "" {
		reason = reasonFailedScheduling
	}
	if list := e.with(pod, reason); len(list) > 0 {
		last := list[len(list)-1]
		return fmt.Sprintf("%s (%s): %s", last.Reason, reporter(last), last.Note)
	}
	if condition := podScheduled(pod); condition != nil && condition.Message != "" {
		return fmt.Sprintf("%s (condition): %s", condition.Reason, condition.Message)
	}
	return ""
}

// requirePlaced requires that exactly the scheduler that pod names says that it placed
// the pod.
func (e events) requirePlaced(c *check, pod *corev1.Pod) {
	list := e.with(pod, reasonScheduled)
	if len(list) == 0 {
		c.add(WrongScheduler, podName(pod), "has node %q, but no event Scheduled: %s did not place it", pod.Spec.NodeName, pod.Spec.SchedulerName)
	}
	for _, event := range list {
		if by := reporter(event); by != pod.Spec.SchedulerName {
			c.add(WrongScheduler, podName(pod), "placed by %q, not by its schedulerName %q", by, pod.Spec.SchedulerName)
		}
	}
}

// requireRefused requires that both the condition of pod and an event of its own
// scheduler say that it cannot be placed and name cause.
func (e events) requireRefused(c *check, pod *corev1.Pod, cause string) {
	condition := podScheduled(pod)
	switch {
	case condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != corev1.PodReasonUnschedulable:
		c.add(WrongReason, podName(pod), "has no condition %s=False with reason %s", corev1.PodScheduled, corev1.PodReasonUnschedulable)
	case !mentions(condition.Message, cause):
		c.add(WrongReason, podName(pod), "its condition does not name %q: %s", cause, condition.Message)
	}
	named := slices.ContainsFunc(e.with(pod, reasonFailedScheduling), func(event *eventsv1.Event) bool {
		return reporter(event) == pod.Spec.SchedulerName && mentions(event.Note, cause)
	})
	if !named {
		c.add(WrongReason, podName(pod), "has no event %s from %s that names %q", reasonFailedScheduling, pod.Spec.SchedulerName, cause)
	}
}

// mentions reports whether message holds cause as a word of its own: "selectable" is not in
// "unselectable".
func mentions(message, cause string) bool {
	for _, word := range strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:(){}[]\"'`", r) }) {
		if strings.TrimSuffix(word, ".") == cause {
			return true
		}
	}
	return false
}

// reporter returns who wrote event. Writers that use the older API set only the source.
func reporter(event *eventsv1.Event) string {
	return cmp.Or(event.ReportingController, event.DeprecatedSource.Component)
}
