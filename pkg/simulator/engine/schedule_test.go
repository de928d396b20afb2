// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
)

// TestSchedule places pods one after the other on a small cluster.
func TestSchedule(t *testing.T) {
	type outcome struct {
		Node, Assigned    string
		Message           string
		Evaluated, Choice int
	}
	gated := makePod("gated", "cpu", "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	picky := makePod("picky", names.GPUMilliResource, "500")
	picky.Annotations = map[string]string{names.GPUModelAnnotation: "H100"}
	tests := []struct {
		name string
		pods []*corev1.Pod
		want []outcome
	}{
		{
			name: "shares are packed onto one device",
			pods: []*corev1.Pod{
				makePod("a", names.GPUMilliResource, "500", "cpu", "1"),
				makePod("b", names.GPUMilliResource, "500", "cpu", "1"),
				makePod("c", names.GPUMilliResource, "1000", "cpu", "1"),
			},
			want: []outcome{
				{Node: "gpu", Assigned: "main=0:500m:8192Mi", Evaluated: 2, Choice: 1},
				{Node: "gpu", Assigned: "main=0:500m:8192Mi", Evaluated: 2, Choice: 1},
				{Node: "gpu", Assigned: "main=1:1000m:16384Mi", Evaluated: 2, Choice: 1},
			},
		},
		{
			name: "a pod without devices leaves them alone",
			pods: []*corev1.Pod{makePod("a", "cpu", "1")},
			want: []outcome{{Node: "plain", Evaluated: 2, Choice: 2}},
		},
		{
			name: "what does not fit says why, for all nodes",
			pods: []*corev1.Pod{
				makePod("a", names.GPUMilliResource, "2000"),
				makePod("b", names.GPUMilliResource, "500"),
				makePod("c", "cpu", "5"),
			},
			want: []outcome{
				{Node: "gpu", Assigned: "main=0,1:1000m:16384Mi", Evaluated: 2, Choice: 1},
				{
					Evaluated: 2,
					Message:   "0/2 nodes are available: 1 node(s) didn't have enough free device share, 1 node(s) didn't share their devices (label berth.dev/gpu-sharing=true).",
				},
				{Evaluated: 2, Message: "0/2 nodes are available: 2 Insufficient cpu."},
			},
		},
		{
			name: "what never fits is refused before any node is looked at",
			pods: []*corev1.Pod{picky},
			want: []outcome{{
				Message: `0/2 nodes are available: no node has a GPU model that matches annotation berth.dev/gpu-model: there are "t4".`,
			}},
		},
		{
			name: "a gate keeps a pod out of the queue",
			pods: []*corev1.Pod{gated},
			want: []outcome{{Message: "waiting for scheduling gates: [example.com/wait]"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster(t, makeSharedNode("gpu", 4, 2, "T4"), makeNode("plain", 4)))
			var got []outcome
			for _, pod := range tt.pods {
				before := pod.DeepCopy()
				r := schedule(t, e, pod)
				got = append(got, outcome{r.Node, assigned(r), r.Message, r.Evaluated, r.Feasible})
				if diff := cmp.Diff(before, pod); diff != "" {
					t.Errorf("The pod was changed (-before,+after):\n%s", diff)
				}
				if diff := cmp.Diff(e.Pod(pod.Namespace, pod.Name), r.Pod); diff != "" {
					t.Errorf("The result has another pod than the cluster (-cluster,+result):\n%s", diff)
				}
				if r.Pod.Spec.NodeName != r.Node {
					t.Errorf("The pod is on %q, the result says %q", r.Pod.Spec.NodeName, r.Node)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected outcomes (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestDelete makes sure that what a pod held can be given to another one, and that
// a pod that was not placed may be tried again.
func TestDelete(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster(t, makeSharedNode("gpu", 8, 1, "T4")))
	first, second := makePod("first", names.GPUMilliResource, "700"), makePod("second", names.GPUMilliResource, "700")
	if r := schedule(t, e, first); r.Node == "" {
		t.Fatal(r.Message)
	}
	if r := schedule(t, e, second); r.Node != "" {
		t.Fatal("two times 700 thousandths of one device")
	}
	if err := e.Delete(t.Context(), first.Namespace, first.Name); err != nil {
		t.Fatal(err)
	}
	if r := schedule(t, e, second); r.Node == "" || assigned(r) != "main=0:700m:11468Mi" {
		t.Errorf("After the first is gone: %q %q %s", r.Node, assigned(r), r.Message)
	}
	if err := e.Delete(t.Context(), "default", "never-there"); err != nil {
		t.Error(err)
	}
}

// TestScheduleErrors are what ends a simulation.
func TestScheduleErrors(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster(t, makeNode("n", 4)))
	other := makePod("other")
	other.Spec.SchedulerName = "another"
	anonymous := makePod("anonymous")
	anonymous.UID = ""
	claiming := makePod("claiming")
	claiming.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"another scheduler's", other, `pod default/other: spec.schedulerName: "another" is none of the profiles berth-scheduler`},
		{"on a node already", on(makePod("bound"), "n"), `pod default/bound: spec.nodeName: it is on node "n" already`},
		{"no UID", anonymous, "pod default/anonymous: metadata.uid: required, because plugins tell pods apart by it"},
		{
			"a claim without claims", claiming,
			`profile "berth-scheduler": plugin VolumeBinding needs persistentvolumeclaims, because pod default/claiming has volumes with claims; the input has none: add the output of "kubectl get persistentvolumeclaims -A -o yaml"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := e.Schedule(t.Context(), tt.pod)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Unexpected error:\n got %v\nwant %s", err, tt.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Schedule(ctx, makePod("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("Unexpected error after the end: %v", err)
	}
}

// TestSchedulerName lets one profile schedule what is another's.
func TestSchedulerName(t *testing.T) {
	pod := makePod("p")
	pod.Spec.SchedulerName = "somebody-else"
	e := newEngine(t, Options{Config: loadProfile(t, stockProfile), SchedulerName: "default-scheduler"}, makeCluster(t, makeNode("n", 4)))
	if r := schedule(t, e, pod); r.Node != "n" {
		t.Error(r.Message)
	}
	_, err := New(t.Context(), Options{Config: loadProfile(t, stockProfile), SchedulerName: "other"}, makeCluster(t, makeNode("n", 4)))
	if want := `no profile has the schedulerName "other": there are default-scheduler`; err == nil || err.Error() != want {
		t.Errorf("Unexpected error %v", err)
	}
}

// TestNoNodes has nowhere to go.
func TestNoNodes(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, &cluster.Cluster{})
	if r := schedule(t, e, makePod("p")); r.Node != "" || r.Message != "no nodes available to schedule pods" {
		t.Errorf("Unexpected result %+v", r)
	}
}

// TestPreemption evicts only if it is asked for, and only what it must.
func TestPreemption(t *testing.T) {
	low, high := int32(1), int32(1000)
	withPriority := func(pod *corev1.Pod, priority *int32) *corev1.Pod {
		pod.Spec.Priority = priority
		return pod
	}
	for _, preemption := range []bool{false, true} {
		e := newEngine(t, Options{Config: loadProfile(t, gpuProfile), Preemption: preemption}, makeCluster(t, makeSharedNode("gpu", 8, 2, "T4")))
		small := withPriority(makePod("small", names.GPUMilliResource, "300", "cpu", "1"), &low)
		whole := withPriority(makePod("whole", names.GPUMilliResource, "1000", "cpu", "1"), &low)
		for _, pod := range []*corev1.Pod{small, whole} {
			if r := schedule(t, e, pod); r.Node == "" {
				t.Fatal(r.Message)
			}
		}
		r := schedule(t, e, withPriority(makePod("important", names.GPUMilliResource, "2000", "cpu", "1"), &high))
		var victims []string
		for _, victim := range r.Victims {
			victims = append(victims, victim.Name)
		}
		if !preemption {
			if r.Node != "" || victims != nil || strings.Contains(r.Message, "preemption") {
				t.Errorf("Without preemption: %q, victims %v, %s", r.Node, victims, r.Message)
			}
			continue
		}
		if r.Node == "" || assigned(r) != "main=0,1:1000m:16384Mi" {
			t.Errorf("With preemption: %q %q %s", r.Node, assigned(r), r.Message)
		}
		if diff := cmp.Diff([]string{"small", "whole"}, victims); diff != "" {
			t.Errorf("Unexpected victims (-want,+got):\n%s", diff)
		}
		if e.Pod("default", "small") != nil {
			t.Error("A victim is still there")
		}
		r = schedule(t, e, withPriority(makePod("modest", names.GPUMilliResource, "100"), &low))
		if want := "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."; !strings.HasSuffix(r.Message, want) {
			t.Errorf("The message lacks what preemption found: %s", r.Message)
		}
	}
}

// TestInQueueOrder orders as the scheduling queue does.
func TestInQueueOrder(t *testing.T) {
	pending := func(name string, priority int32, minute int) *corev1.Pod {
		pod := makePod(name)
		pod.Spec.Priority = &priority
		pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC))
		return pod
	}
	pods := []*corev1.Pod{pending("late", 0, 5), pending("early", 0, 1), pending("important", 10, 9), pending("late-too", 0, 5)}
	e := newEngine(t, Options{Config: loadProfile(t, stockProfile)}, &cluster.Cluster{})
	sorted, err := e.InQueueOrder(pods)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, alone := range sorted {
		got = append(got, alone[0].Name)
	}
	if diff := cmp.Diff([]string{"important", "early", "late", "late-too"}, got); diff != "" {
		t.Errorf("Unexpected order (-want,+got):\n%s", diff)
	}
	if pods[0].Name != "late" {
		t.Error("The argument was changed")
	}
}

// TestWarnings keeps what plugins warn of.
func TestWarnings(t *testing.T) {
	stray := on(makePod("stray", names.GPUMilliResource, "100"), "gpu") // without a record
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t, makeSharedNode("gpu", 8, 2, "T4"), stray))
	schedule(t, e, makePod("a", names.GPUMilliResource, "600"))
	warnings := e.Warnings()
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "default/stray: ") || !strings.HasSuffix(warnings[0], "(GPUDevicesUnknown)") {
		t.Errorf("Unexpected warnings %q", warnings)
	}
}

// TestScheduleOn follows a choice that was made elsewhere, if it is possible.
func TestScheduleOn(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)},
		makeCluster(t, makeSharedNode("a", 8, 1, "T4"), makeSharedNode("b", 8, 1, "T4"), makeNode("c", 8)))
	pod := makePod("p", names.GPUMilliResource, "500")
	for _, node := range []string{"c", "missing", ""} {
		if _, err := e.ScheduleOn(t.Context(), pod, node); err == nil {
			t.Errorf("It was placed on node %q", node)
		}
	}
	r, err := e.ScheduleOn(t.Context(), pod, "b")
	if err != nil || r.Node != "b" || assigned(r) != "main=0:500m:8192Mi" {
		t.Fatalf("Unexpected result %+v (%v)", r, err)
	}
	if totals := totals(r); len(totals) != 2 || totals["a"] != totals["b"] {
		t.Errorf("Unexpected scores %+v", r.Scores)
	}
	if _, err := e.ScheduleOn(t.Context(), makePod("whole", names.GPUMilliResource, "2000"), "a"); err == nil {
		t.Error("A pod that fits nowhere was placed")
	}
}

// TestColocation lets a plugin whose index is fed by events follow what the engine
// places.
func TestColocation(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backend"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}},
	}
	objects := []runtime.Object{service}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		objects = append(objects, makeNode(name, 4))
	}
	c := loadProfile(t, "config/berth-scheduler/colocation.yaml")
	e := newEngine(t, Options{Config: c}, makeCluster(t, objects...))
	backend := makePod("backend", "cpu", "1")
	node := schedule(t, e, backend).Node
	for _, name := range []string{"web-1", "web-2"} {
		pod := makePod(name, "cpu", "1")
		pod.Annotations = map[string]string{
			names.ColocateWithAnnotation:                "backend",
			names.ColocateRequiredTopologyKeyAnnotation: corev1.LabelHostname,
		}
		if r := schedule(t, e, pod); r.Node != node {
			t.Errorf("%s is on %q, its backend on %q: %s", name, r.Node, node, r.Message)
		}
	}
}
