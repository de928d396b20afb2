// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

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

// evidence is the events by the UID of the object that they are about, oldest
// first. The UID, not the name: an event outlives its pod, and a later pod may
// have the name.
type evidence map[types.UID][]*eventsv1.Event

func gather(events []eventsv1.Event) evidence {
	e := evidence{}
	for i := range events {
		uid := events[i].Regarding.UID
		e[uid] = append(e[uid], &events[i])
	}
	for _, list := range e {
		slices.SortStableFunc(list, func(a, b *eventsv1.Event) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return e
}

// with returns the events about pod that have reason.
func (e evidence) with(pod *corev1.Pod, reason string) []*eventsv1.Event {
	var found []*eventsv1.Event
	for _, event := range e[pod.UID] {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// why returns the API's own explanation for where pod is.
func (e evidence) why(pod *corev1.Pod) string {
	reason := reasonScheduled
	if pod.Spec.NodeName == "" {
		reason = reasonFailedScheduling
	}
	if events := e.with(pod, reason); len(events) > 0 {
		last := events[len(events)-1]
		return fmt.Sprintf("%s (%s): %s", last.Reason, reporter(last), last.Note)
	}
	if condition := podScheduled(pod); condition != nil && condition.Message != "" {
		return fmt.Sprintf("%s (condition): %s", condition.Reason, condition.Message)
	}
	return ""
}

// placedByOwn returns a violation unless exactly the scheduler that pod names
// says that it placed the pod.
func (e evidence) placedByOwn(pod *corev1.Pod) []string {
	events := e.with(pod, reasonScheduled)
	if len(events) == 0 {
		return []string{fmt.Sprintf("has node %q, but no event Scheduled: %s did not place it", pod.Spec.NodeName, pod.Spec.SchedulerName)}
	}
	var violations []string
	for _, event := range events {
		if by := reporter(event); by != pod.Spec.SchedulerName {
			violations = append(violations, fmt.Sprintf("placed by %q, not by its schedulerName %q", by, pod.Spec.SchedulerName))
		}
	}
	return violations
}

// refusedFor returns a violation unless both the condition of pod and an event
// of its own scheduler say that it cannot be placed and name cause.
func (e evidence) refusedFor(pod *corev1.Pod, cause string) []string {
	var violations []string
	condition := podScheduled(pod)
	switch {
	case condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != corev1.PodReasonUnschedulable:
		violations = append(violations, fmt.Sprintf("has no condition %s=False with reason %s", corev1.PodScheduled, corev1.PodReasonUnschedulable))
	case !names(condition.Message, cause):
		violations = append(violations, fmt.Sprintf("its condition does not name %q: %s", cause, condition.Message))
	}
	named := slices.ContainsFunc(e.with(pod, reasonFailedScheduling), func(event *eventsv1.Event) bool {
		return reporter(event) == pod.Spec.SchedulerName && names(event.Note, cause)
	})
	if !named {
		violations = append(violations, fmt.Sprintf("has no event %s from %s that names %q", reasonFailedScheduling, pod.Spec.SchedulerName, cause))
	}
	return violations
}

// names reports whether message holds cause as a word of its own: "selectable" is
// not in "unselectable".
func names(message, cause string) bool {
	for _, word := range strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:(){}[]\"'`", r) }) {
		if strings.TrimSuffix(word, ".") == cause {
			return true
		}
	}
	return false
}

// podScheduled returns the condition PodScheduled, or nil.
func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// reporter returns who wrote event. Writers that use the older API set only the
// source.
func reporter(event *eventsv1.Event) string {
	return cmp.Or(event.ReportingController, event.DeprecatedSource.Component)
}
