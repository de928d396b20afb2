// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	testingclock "k8s.io/utils/clock/testing"
)

func TestWatchSchedulerNames(t *testing.T) {
	const timeout = 10 * time.Second
	waiting := func(name, scheduler string) *corev1.Pod {
		return st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName(scheduler).Obj()
	}
	refused := waiting("refused", "berth-gpv")
	refused.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	gated := st.MakePod().Namespace("default").Name("gated").SchedulerName("berth-gppu").SchedulingGates([]string{"g"}).Obj()
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	bound := waiting("bound", "berth-gp")
	bound.Spec.NodeName = "n"
	text := func(name string) string {
		return `Warning UnknownSchedulerName spec.schedulerName: no scheduler handles "` + name + `"; did you mean "berth-gpu"? Recreate the pod: schedulerName is immutable`
	}

	tests := []struct {
		name string
		pods []*corev1.Pod
		want []string
	}{
		{name: "a typo", pods: []*corev1.Pod{waiting("p", "berth-gppu")}, want: []string{text("berth-gppu")}},
		{name: "capitals", pods: []*corev1.Pod{waiting("p", "Berth-GPU")}, want: []string{text("Berth-GPU")}},
		{name: "a profile's name", pods: []*corev1.Pod{waiting("p", "berth-gpu")}},
		{name: "another scheduler's name", pods: []*corev1.Pod{waiting("p", "volcano"), waiting("q", "default-scheduler")}},
		{name: "a name like ours that another scheduler serves", pods: []*corev1.Pod{bound, waiting("p", "berth-gp"), refused, waiting("q", "berth-gpv")}},
		{name: "a pod that must not be scheduled yet", pods: []*corev1.Pod{gated}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ctx := ktesting.NewTestContext(t)
			client := fake.NewClientset()
			for _, pod := range tt.pods {
				if err := client.Tracker().Add(pod.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			factory := informers.NewSharedInformerFactory(client, 0)
			record := events.NewFakeRecorder(10)
			clock := testingclock.NewFakeClock(time.Unix(0, 0))
			synced, err := watchSchedulerNames(ctx, factory, map[string]events.EventRecorder{"berth-gpu": record, "berth-scheduler": record}, clock, timeout)
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			factory.WaitForCacheSync(ctx.Done())
			for !synced() { // the handler has seen every pod
				if ctx.Err() != nil {
					t.Fatal(ctx.Err())
				}
			}
			clock.Step(timeout - time.Millisecond)
			if got := len(record.Events); got > 0 {
				t.Errorf("%d event(s) before the time", got)
			}
			clock.Step(time.Millisecond)
			close(record.Events)
			var got []string
			for event := range record.Events {
				got = append(got, event)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestUngatedPodIsWarnedOf: a pod's time runs from when it can be scheduled.
func TestUngatedPodIsWarnedOf(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	gated := st.MakePod().Namespace("default").Name("p").SchedulerName("berth-gppu").SchedulingGates([]string{"g"}).Obj()
	open := gated.DeepCopy()
	open.Spec.SchedulingGates = nil
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(open); err != nil {
		t.Fatal(err)
	}
	record := events.NewFakeRecorder(10)
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	w := newSchedulerNames(ctx, factory, map[string]events.EventRecorder{"berth-gpu": record}, clock, time.Second)
	w.see(nil, gated)
	clock.Step(time.Minute)
	w.see(gated, open)
	w.see(open, open)
	clock.Step(time.Minute)
	if got := len(record.Events); got != 1 {
		t.Errorf("%d event(s), want 1", got)
	}
}
