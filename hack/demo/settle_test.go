// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
)

// settledCluster is one in which nothing is expected to change: one pod runs, and
// the one that must stay pending was refused.
func settledCluster() *verdict.Cluster {
	running := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: shopNamespace, Name: "basket", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	refused := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: policyNamespace, Name: stuckPod, UID: "2"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
	event := func(uid types.UID, reason string) eventsv1.Event {
		return eventsv1.Event{Regarding: corev1.ObjectReference{UID: uid}, Reason: reason}
	}
	return &verdict.Cluster{
		Pods: []corev1.Pod{running, refused},
		Deployments: []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: shopNamespace, Name: "basket"},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(1))},
			Status:     appsv1.DeploymentStatus{Replicas: 1},
		}},
		Events: []eventsv1.Event{event("1", "Scheduled"), event("2", "FailedScheduling")},
	}
}

// The demo must not judge too early, and must not wait for what will not come.
func TestUnsettled(t *testing.T) {
	tests := []struct {
		name   string
		change func(*verdict.Cluster)
		want   []string
	}{
		{name: "settled", change: func(*verdict.Cluster) {}},
		{
			name:   "pod not created yet",
			change: func(c *verdict.Cluster) { c.Deployments[0].Status.Replicas = 0 },
			want:   []string{"deployment basket has 0 of 1 pods"},
		},
		{
			name:   "pod without a node",
			change: func(c *verdict.Cluster) { c.Pods[0].Spec.NodeName = "" },
			want:   []string{"pod shop/basket is neither placed nor refused"},
		},
		{
			name: "pod refused that may still be placed",
			change: func(c *verdict.Cluster) {
				c.Pods[0].Spec.NodeName = ""
				c.Pods[0].Status.Conditions = c.Pods[1].Status.Conditions
			},
			want: []string{"pod shop/basket is neither placed nor refused"},
		},
		{
			name:   "pod that does not run yet",
			change: func(c *verdict.Cluster) { c.Pods[0].Status.Phase = corev1.PodPending },
			want:   []string{"pod shop/basket is on node n1 and Pending"},
		},
		{
			name:   "pod that nobody has looked at",
			change: func(c *verdict.Cluster) { c.Pods[1].Status.Conditions = nil },
			want:   []string{"pod policy/gpu-in-zone-c is neither placed nor refused"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster := settledCluster()
			tt.change(cluster)
			if diff := cmp.Diff(tt.want, unsettled(cluster)); diff != "" {
				t.Errorf("unexpected list (-want,+got):\n%s", diff)
			}
		})
	}
}

// Events come after the fact: they are waited for apart, each kind for its pod.
func TestUntold(t *testing.T) {
	cluster := settledCluster()
	if open := untold(cluster); len(open) > 0 {
		t.Errorf("unexpected list %q", open)
	}
	cluster.Events[0].Reason, cluster.Events[1].Regarding.UID = "FailedScheduling", "of an earlier pod"
	want := []string{"pod shop/basket has no event Scheduled", "pod policy/gpu-in-zone-c has no event FailedScheduling"}
	if diff := cmp.Diff(want, untold(cluster)); diff != "" {
		t.Errorf("unexpected list (-want,+got):\n%s", diff)
	}
}

// Patience may end while an observation is under way: it is finished and counts.
// It once failed the demo, when listing nodes met the end of the wait.
func TestObserveUntilPatienceEnds(t *testing.T) {
	const patience = 50 * time.Millisecond
	var out bytes.Buffer
	d := newDemo(&options{}, &out)
	want := settledCluster()
	observe := func(ctx context.Context) (*verdict.Cluster, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(4 * patience): // longer than the wait itself
			return want, nil
		}
	}
	open := func(*verdict.Cluster) []string { return []string{"pod planted has no event Scheduled"} }
	got, err := d.observeUntil(t.Context(), patience, observe, open)
	if err != nil || got != want {
		t.Fatalf("got %v, %v; want the observation that was under way", got, err)
	}
	if text := "still: pod planted has no event Scheduled"; !strings.Contains(out.String(), text) {
		t.Errorf("the output does not say %q:\n%s", text, out.String())
	}
}

// Ctrl-C does not wait for patience to end, and is the reason.
func TestObserveUntilInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	observe := func(ctx context.Context) (*verdict.Cluster, error) {
		cancel()
		return nil, ctx.Err()
	}
	if got, err := newDemo(&options{}, &bytes.Buffer{}).observeUntil(ctx, time.Hour, observe, untold); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("got %v, %v; want %v", got, err, context.Canceled)
	}
}
