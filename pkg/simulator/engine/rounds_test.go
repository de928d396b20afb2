// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestScheduleAll has pods that wait for pods that come later, and one that waits
// for what never comes.
func TestScheduleAll(t *testing.T) {
	c := loadProfile(t, "config/berth-scheduler/colocation.yaml")
	objects := []runtime.Object{makeNode("n", 4)}
	for _, name := range []string{"web", "api", "db", "nobody"} {
		objects = append(objects, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}},
		})
	}
	near := func(name, service string) *corev1.Pod {
		pod := makePod(name, "cpu", "1")
		pod.Annotations = map[string]string{
			names.ColocateWithAnnotation: service, names.ColocateRequiredTopologyKeyAnnotation: corev1.LabelHostname,
		}
		return pod
	}
	pods := []*corev1.Pod{near("lonely", "nobody"), near("web", "api"), near("api", "db"), makePod("db", "cpu", "1"), makePod("huge", "cpu", "9")}

	run := func(stopAfter int) (got []string) {
		for result, err := range newEngine(t, Options{Config: c}, makeCluster(t, objects...)).ScheduleAll(t.Context(), pods) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, result.Pod.Name+" "+result.Outcome.String()); len(got) == stopAfter {
				break
			}
		}
		return got
	}
	want := []string{"db bound", "api bound", "web bound", "lonely unschedulable", "huge unschedulable"}
	if diff := cmp.Diff(want, run(0)); diff != "" {
		t.Errorf("Unexpected results (-want,+got):\n%s", diff)
	}
	for n := 1; n <= len(want); n++ {
		if diff := cmp.Diff(want[:n], run(n)); diff != "" {
			t.Errorf("Unexpected results when stopped after %d (-want,+got):\n%s", n, diff)
		}
	}

	stranger := makePod("stranger")
	stranger.Spec.SchedulerName = "other"
	var failed []error
	for _, err := range newEngine(t, Options{Config: c}, makeCluster(t, objects...)).ScheduleAll(t.Context(), slices.Concat([]*corev1.Pod{stranger}, pods)) {
		failed = append(failed, err)
	}
	if len(failed) != 1 || failed[0] == nil {
		t.Errorf("A pod of another scheduler: %v", failed)
	}
}
