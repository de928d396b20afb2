// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podOn(name, node string, refused bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	if refused {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes. preemption: none"}}
	}
	return pod
}

// checkCounts compares all but the time.
func checkCounts(t *testing.T, r *recorder, want counts) {
	t.Helper()
	got := r.progress()
	got.last = time.Time{}
	if got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestRecorder(t *testing.T) {
	r := newRecorder([]string{"a", "b", "c"})
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(r.Replace(nil, "1"))
	<-r.ready
	do(r.Add(podOn("probe", "n", false)))
	checkCounts(t, r, counts{})
	do(r.Add(podOn("a", "", false)))
	created := r.progress().last
	time.Sleep(time.Millisecond) //nolint:forbidigo // some clocks are coarse
	do(r.Update(podOn("a", "", true)))
	refused := r.progress().last
	if !refused.After(created) {
		t.Errorf("the last change was at %v, want the refusal after the creation at %v", refused, created)
	}
	do(r.Update(podOn("a", "", true)))
	if last := r.progress().last; last != refused {
		t.Errorf("the last change was at %v, want the first refusal at %v", last, refused)
	}
	checkCounts(t, r, counts{seen: 1, refused: 1})
	before := time.Now()
	do(r.Update(podOn("a", "n1", false)))
	after := time.Now()
	if last := r.progress().last; last.Before(before) || last.After(after) {
		t.Errorf("the last change was at %v, want the binding between %v and %v", last, before, after)
	}
	do(r.Update(podOn("a", "n1", false)))
	checkCounts(t, r, counts{seen: 1, bound: 1})
	if got := <-r.bindings; got != 0 || len(r.bindings) != 0 {
		t.Errorf("binding of pod %d and %d more, want that of pod 0 alone", got, len(r.bindings))
	}
	do(r.Add(podOn("b", "", true)))
	do(r.Delete(podOn("b", "", true)))
	checkCounts(t, r, counts{seen: 2, bound: 1, gone: 1, lost: 1})
	do(r.Add(podOn("c", "n2", false)))
	do(r.Delete(podOn("c", "n2", false)))
	do(r.Delete(podOn("c", "n2", false)))
	checkCounts(t, r, counts{seen: 3, bound: 2, gone: 2, lost: 1})

	// The watch is lost, and a is deleted meanwhile.
	do(r.Replace([]any{podOn("probe", "n", false)}, "9"))
	checkCounts(t, r, counts{seen: 3, bound: 2, gone: 3, lost: 1})
	records, losses := r.result()
	if losses != 1 {
		t.Errorf("%d losses, want 1", losses)
	}
	if bound := records[0].bound; bound.Before(before) || bound.After(after) {
		t.Errorf("bound at %v, want between %v and %v", bound, before, after)
	}
	if err := r.Add("text"); err == nil {
		t.Error("a text passes for a pod")
	}
}

func TestReasons(t *testing.T) {
	records := []record{
		{pod: podOn("a", "", true), refused: true},
		{pod: podOn("b", "", true), refused: true},
		{pod: podOn("c", "", false)},
		{pod: podOn("d", "n", false), bound: time.Now()},
		{pod: podOn("e", "", true), gone: true},
		{},
	}
	if diff := cmp.Diff(map[string]int{"0/3 nodes.": 2, notTried: 1}, reasons(records)); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	var many []record
	for i := range maxReasons + 3 {
		pod := podOn("x", "", true)
		pod.Status.Conditions[0].Message = fmt.Sprint("reason ", i)
		for range i + 1 {
			many = append(many, record{pod: pod})
		}
	}
	got := reasons(many)
	if len(got) != maxReasons+1 || got[otherReasons] != 1+2+3 || got["reason 3"] != 4 {
		t.Errorf("%d reasons, %d others, %d of the rarest that is told: %v", len(got), got[otherReasons], got["reason 3"], got)
	}
}
