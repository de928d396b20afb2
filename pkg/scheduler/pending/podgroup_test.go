// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// A member of one of Kubernetes' own gangs that had a place is told what it waits for;
// the error stays, by which the scheduler knows the case.
func TestPodGroupMessages(t *testing.T) {
	single := st.MakePod().Namespace("default").Name("p").Obj()
	member := single.DeepCopy()
	group := "train"
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	unschedulable := errors.New("pod group is unschedulable")
	const waits = groupWaits + ", one or more plugins asked to wait and no plugin rejected pod"
	for _, tt := range []struct {
		name   string
		pod    *corev1.Pod
		reason string
		want   string
	}{
		{
			"a member that had a place", member, waits,
			"pod group is unschedulable, this pod would fit, but too few other members of PodGroup default/train do: see their events",
		},
		{
			"a member that had a place, in Kubernetes 1.37", member,
			"pod group is unschedulable, minCount (6) cannot be satisfied: 5 scheduled, 0 remaining, pod group preemption: No preemption victims found for incoming preemptor",
			"pod group is unschedulable, this pod would fit, but too few other members of PodGroup default/train do: see their events",
		},
		{
			"a member that was not tried", member, "minCount (6) cannot be satisfied: 2 scheduled, 3 remaining",
			"pod group is unschedulable, too few members of PodGroup default/train fit: see the events of the others",
		},
		{"a member for which somebody is evicted", member, "pod group is waiting for preemption to complete", "pod group is unschedulable, pod group is waiting for preemption to complete"},
		{"a pod without a group", single, waits, "pod group is unschedulable, " + waits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *fwk.Status
			wrapped := fixture(t, nil).Wrap(func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, status *fwk.Status, _ *fwk.NominatingInfo, _ time.Time) {
				got = status
			})
			status := fwk.NewStatus(fwk.Unschedulable, tt.reason).WithError(unschedulable)
			wrapped(t.Context(), nil, &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: tt.pod}}, status, nil, time.Time{})
			if got.Message() != tt.want {
				t.Errorf("want %q, got %q", tt.want, got.Message())
			}
			if got.Code() != fwk.Unschedulable || !errors.Is(got.AsError(), unschedulable) {
				t.Errorf("the code is %v and the error %v", got.Code(), got.AsError())
			}
		})
	}
}
