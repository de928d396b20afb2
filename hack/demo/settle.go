// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
)

const (
	// settlePatience is how long the pods may take to appear, to be placed or
	// refused, and to run. What is not so by then is up to the verdict.
	settlePatience = time.Minute
	// eventPatience is how long the events may take after that: schedulers write
	// them in the background.
	eventPatience = 5 * time.Second
)

// settled waits until nothing is expected to change any more and returns what
// the API server says then.
func (d *demo) settled(ctx context.Context) (*verdict.Cluster, error) {
	d.step("waiting until every pod is placed and running, or refused")
	if _, err := d.observeUntil(ctx, settlePatience, d.observe, unsettled); err != nil {
		return nil, err
	}
	return d.observeUntil(ctx, eventPatience, d.observe, untold)
}

// observeUntil observes until nothing is open or patience is over, and returns the
// last observation. What is open at the end is printed, and is not an error: the
// verdict says what it means.
func (d *demo) observeUntil(ctx context.Context, patience time.Duration,
	observe func(context.Context) (*verdict.Cluster, error), open func(*verdict.Cluster) []string,
) (*verdict.Cluster, error) {
	var cluster *verdict.Cluster
	var left []string
	err := wait.PollUntilContextTimeout(ctx, pollPause, patience, true, func(context.Context) (bool, error) {
		// With the demo's context, not with the wait's: an observation that is under
		// way when patience ends is finished, and is the last one.
		seen, err := observe(ctx)
		if err != nil {
			return false, err
		}
		cluster, left = seen, open(seen)
		return len(left) == 0, nil
	})
	switch {
	case err == nil:
		return cluster, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case wait.Interrupted(err) && cluster != nil:
		d.step("after %v still: %s", patience, strings.Join(left, "; "))
		return cluster, nil
	}
	return nil, err
}

// observe lists what the verdict needs.
func (d *demo) observe(ctx context.Context) (*verdict.Cluster, error) {
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	deployments, err := d.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing deployments: %w", err)
	}
	cluster := &verdict.Cluster{Nodes: nodes.Items, Pods: pods.Items, Deployments: deployments.Items}
	for _, namespace := range namespaces {
		events, err := d.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing events: %w", err)
		}
		cluster.Events = append(cluster.Events, events.Items...)
	}
	return cluster, nil
}

// unsettled returns what is still to happen to the pods.
func unsettled(cluster *verdict.Cluster) []string {
	var open []string
	for i := range cluster.Deployments {
		status := &cluster.Deployments[i].Status
		// The API server has filled in spec.replicas.
		if want := *cluster.Deployments[i].Spec.Replicas; status.Replicas != want {
			open = append(open, fmt.Sprintf("deployment %s has %d of %d pods", cluster.Deployments[i].Name, status.Replicas, want))
		}
	}
	for i := range cluster.Pods {
		pod := &cluster.Pods[i]
		switch {
		case pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodRunning:
			open = append(open, fmt.Sprintf("pod %s/%s is on node %s and %s", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase))
		case pod.Spec.NodeName == "" && (!isPending(pod) || !refused(pod)):
			open = append(open, fmt.Sprintf("pod %s/%s is neither placed nor refused", pod.Namespace, pod.Name))
		}
	}
	return open
}

// refused reports whether the pod's scheduler has said that it fits nowhere.
func refused(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// untold returns the pods without an event of their scheduler's decision.
func untold(cluster *verdict.Cluster) []string {
	type key struct{ uid, reason string }
	told := map[key]bool{}
	for i := range cluster.Events {
		event := &cluster.Events[i]
		told[key{string(event.Regarding.UID), event.Reason}] = true
	}
	var open []string
	for i := range cluster.Pods {
		pod := &cluster.Pods[i]
		reason := "Scheduled"
		if pod.Spec.NodeName == "" {
			reason = "FailedScheduling"
		}
		if !told[key{string(pod.UID), reason}] {
			open = append(open, fmt.Sprintf("pod %s/%s has no event %s", pod.Namespace, pod.Name, reason))
		}
	}
	return open
}
