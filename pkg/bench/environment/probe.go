// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

const (
	// afterTimeout is how long it may take to tidy up and to read events afterwards.
	afterTimeout = 10 * time.Second
	// pauseImage is only pulled where a scheduler puts the pod on a real node: no
	// container runs on a fake one.
	pauseImage = "registry.k8s.io/pause:3.10"
)

// Probe makes sure that the scheduler of this name binds pods to the run's nodes: it
// creates a pod that asks for nothing, waits until it has a node, and deletes it. It
// needs a node: the one from Prepare, or those of CreateNodes. The error says what
// the scheduler has said about the pod, or that it has said nothing.
func (e *Environment) Probe(ctx context.Context, schedulerName string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers:    []corev1.Container{{Name: "pause", Image: pauseImage}},
		},
	}
	e.Adopt(pod)
	pods := e.client.CoreV1().Pods(e.namespace)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a pod to see whether the scheduler %s answers: %w", schedulerName, err)
	}
	bound := e.awaitBinding(ctx, pod, schedulerName)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTimeout)
	defer cancel()
	if err := pods.Delete(after, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		return errors.Join(bound, fmt.Errorf("deleting pod %s/%s: %w", e.namespace, pod.Name, err))
	}
	return bound
}

func (e *Environment) awaitBinding(ctx context.Context, pod *corev1.Pod, schedulerName string) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, e.timeout, true, func(ctx context.Context) (bool, error) {
		now, err := e.client.CoreV1().Pods(e.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || now.Spec.NodeName == "" {
			return false, err
		}
		return true, e.CheckNode(now)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return e.explain(ctx, pod.Name, schedulerName)
	}
	return fmt.Errorf("waiting for the scheduler %s: %w", schedulerName, err)
}

// explain says why a pod has no node.
func (e *Environment) explain(ctx context.Context, pod, schedulerName string) error {
	ctx, cancel := context.WithTimeout(ctx, afterTimeout)
	defer cancel()
	said := ""
	events, err := e.client.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", pod).String(),
	})
	if err == nil {
		for i := range events.Items {
			if events.Items[i].Type != corev1.EventTypeNormal {
				said = events.Items[i].Reason + ": " + events.Items[i].Message
			}
		}
	}
	if said != "" {
		return fmt.Errorf("scheduler %s has not bound a pod without requests to a fake node within %v; it reports: %s", schedulerName, e.timeout, said)
	}
	return fmt.Errorf("scheduler %s has not answered within %v: it is not running, is not the leader, or cannot see namespace %s: start it, or leave it out",
		schedulerName, e.timeout, e.namespace)
}

// CheckNode returns an error if the pod has a node that is not the run's.
func (e *Environment) CheckNode(pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" || e.OwnsNode(pod.Spec.NodeName) {
		return nil
	}
	return fmt.Errorf("pod %s/%s is on node %s, which is not one of the run's: scheduler %s ignores nodeSelector and taints, so it cannot be measured in this cluster; leave it out, or run on a local cluster",
		pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName)
}
