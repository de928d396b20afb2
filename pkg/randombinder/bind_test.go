// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyTheServersWordIsARefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"forbidden", apierrors.NewForbidden(pods, "p", errors.New("no")), true},
		{"bad request", apierrors.NewBadRequest("no"), true},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
		{"forbidden, wrapped", fmt.Errorf("binding: %w", apierrors.NewForbidden(pods, "p", errors.New("no"))), true},
		{"internal error", apierrors.NewInternalError(errors.New("etcd")), false},
		{"time-out in the server", apierrors.NewTimeoutError("slow", 1), false},
		{"server time-out", apierrors.NewServerTimeout(pods, "create", 1), false},
		{"unavailable", apierrors.NewServiceUnavailable("starting"), false},
		{"connection lost", io.ErrUnexpectedEOF, false},
		{"own time-out", context.DeadlineExceeded, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isRefusal(tt.err); got != tt.want {
				t.Errorf("isRefusal(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

func TestConditionPatch(t *testing.T) {
	since := metav1.Unix(1000, 0)
	pod := func(conditions ...corev1.PodCondition) *corev1.Pod {
		p := pendingPodObject("p")
		p.ResourceVersion, p.Generation = "7", 3
		p.Status.Conditions = conditions
		return p
	}
	unschedulable := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "old", LastTransitionTime: since,
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		// keepsTime says that the condition was False before.
		keepsTime bool
		want      bool
	}{
		{name: "no condition yet", pod: pod(), want: true},
		{name: "another message", pod: pod(unschedulable), keepsTime: true, want: true},
		{name: "the gate's reason", pod: pod(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "new", LastTransitionTime: since}), keepsTime: true, want: true},
		{name: "the same already", pod: pod(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "new"})},
		{name: "other conditions do not matter", pod: pod(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: since}), want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content, needed := conditionPatch(tt.pod, "new")
			if needed != tt.want {
				t.Fatalf("needed = %v, want %v", needed, tt.want)
			}
			if !needed {
				return
			}
			var patch corev1.Pod
			if err := json.Unmarshal(content, &patch); err != nil {
				t.Fatal(err)
			}
			if patch.ResourceVersion != "7" {
				t.Errorf("resourceVersion is %q: the patch could mark a pod that was bound meanwhile", patch.ResourceVersion)
			}
			got := patch.Status.Conditions[0]
			if got.LastTransitionTime.Equal(&since) != tt.keepsTime {
				t.Errorf("lastTransitionTime is %v, want the old one kept: %v", got.LastTransitionTime, tt.keepsTime)
			}
			got.LastTransitionTime = metav1.Time{}
			want := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "new", ObservedGeneration: 3}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("condition (-want,+got):\n%s", diff)
			}
		})
	}
}
