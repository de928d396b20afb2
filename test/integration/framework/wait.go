// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

// WaitTimeout is enough for anything that a healthy cluster does; it is generous
// because the machine may be busy. Only failing tests reach it.
const WaitTimeout = time.Minute

// failures are the waits that were in vain, by the name of the top-level test. They
// are told again after the logs of the components, because who looks at a failure
// elsewhere may be shown the end of the output only.
var failures sync.Map

// rootName returns the name of the top-level test that tb is part of.
func rootName(tb testing.TB) string {
	name, _, _ := strings.Cut(tb.Name(), "/")
	return name
}

// WaitForCondition polls condition until it is true. An error is taken for "not
// yet" and shown if time runs out, because a server may be restarting.
func WaitForCondition(tb testing.TB, timeout time.Duration, description string, condition func() (bool, error)) {
	tb.Helper()
	var last error
	err := wait.PollUntilContextTimeout(tb.Context(), process.PollInterval, timeout, true, func(context.Context) (ok bool, err error) {
		ok, last = condition()
		return ok, nil
	})
	if err != nil {
		failure := fmt.Sprintf("after %v still waiting for %s (last error: %v)", timeout, description, last)
		failures.Store(rootName(tb), failure)
		tb.Fatal(failure)
	}
}

// WaitForPod waits until the pod exists and satisfies condition, and returns it.
func (c *Cluster) WaitForPod(tb testing.TB, namespace, name, description string, condition func(*corev1.Pod) bool) *corev1.Pod {
	tb.Helper()
	var last *corev1.Pod
	WaitForCondition(tb, WaitTimeout, fmt.Sprintf("pod %s/%s to be %s", namespace, name, description), func() (bool, error) {
		pod, err := c.Client.CoreV1().Pods(namespace).Get(tb.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = pod
		return condition(pod), nil
	})
	return last
}

// WaitForPodScheduled waits until the pod has a node and returns it.
func (c *Cluster) WaitForPodScheduled(tb testing.TB, namespace, name string) *corev1.Pod {
	tb.Helper()
	return c.WaitForPod(tb, namespace, name, "scheduled", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// WaitForPodUnschedulable waits until a scheduler has said that the pod fits on no
// node, and returns it; the message of its PodScheduled condition says why.
func (c *Cluster) WaitForPodUnschedulable(tb testing.TB, namespace, name string) *corev1.Pod {
	tb.Helper()
	return c.WaitForPod(tb, namespace, name, "unschedulable", func(pod *corev1.Pod) bool {
		condition := PodScheduledCondition(pod)
		return condition != nil && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
	})
}

// WaitForPodRunning waits until kwok has started the pod and returns it.
func (c *Cluster) WaitForPodRunning(tb testing.TB, namespace, name string) *corev1.Pod {
	tb.Helper()
	return c.WaitForPod(tb, namespace, name, "running", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// WaitForPodGone waits until the pod no longer exists.
func (c *Cluster) WaitForPodGone(tb testing.TB, namespace, name string) {
	tb.Helper()
	WaitForCondition(tb, WaitTimeout, fmt.Sprintf("pod %s/%s to be gone", namespace, name), func() (bool, error) {
		_, err := c.Client.CoreV1().Pods(namespace).Get(tb.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// WaitForEvent waits for an event on the pod whose note contains text, and returns
// the note. An empty reason stands for any.
func (c *Cluster) WaitForEvent(tb testing.TB, namespace, pod, reason, text string) string {
	tb.Helper()
	var note string
	WaitForCondition(tb, WaitTimeout, fmt.Sprintf("an event %s on pod %s/%s to contain %q", reason, namespace, pod, text), func() (bool, error) {
		events, err := c.Client.EventsV1().Events(namespace).List(tb.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + pod})
		if err != nil {
			return false, err
		}
		var others []string
		for i := range events.Items {
			event := &events.Items[i]
			if (reason == "" || event.Reason == reason) && strings.Contains(event.Note, text) {
				note = event.Note
				return true, nil
			}
			others = append(others, event.Reason+": "+event.Note)
		}
		return false, fmt.Errorf("its events are %q", others)
	})
	return note
}

// PodScheduledCondition returns the pod's PodScheduled condition, nil without one.
func PodScheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// FreePort returns a port of 127.0.0.1 that nothing listens on.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, err := localcluster.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}
