// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// enableGangs switches on what places PodGroups, for the length of a test.
func enableGangs(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
}

// makePodGroup is a gang of which so many members start together.
func makePodGroup(name string, minCount int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID("uid-of-" + name)},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}},
			DisruptionMode:   &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
		},
	}
}

// makeMembers are so many members of a PodGroup, each with such a share.
func makeMembers(group string, count int, milli string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range count {
		pod := makePod(fmt.Sprintf("%s-%d", group, i), names.GPUMilliResource, milli)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		pods = append(pods, pod)
	}
	return pods
}

func schedulePodGroup(t *testing.T, e *Engine, pods []*corev1.Pod) PodGroupResult {
	t.Helper()
	result, err := e.SchedulePodGroup(t.Context(), pods)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// outcome is the node and the devices of each member.
func outcome(r PodGroupResult) []string {
	var all []string
	for _, member := range r.Members {
		all = append(all, strings.TrimSpace(member.Node+" "+assigned(member)))
	}
	return all
}

// TestSchedulePodGroup places gangs as a whole, each device once, or not at all.
func TestSchedulePodGroup(t *testing.T) {
	enableGangs(t)
	for _, tt := range []struct {
		name              string
		members, minCount int
		milli             string
		// missing are members that are not there when the others are tried.
		missing  int
		want     int
		message  string
		proposed int
		// last is in what is said of the last member.
		last string
	}{
		{name: "all fit, two on a device", members: 6, minCount: 6, milli: "500", want: 6},
		{name: "all fit, one on a device", members: 3, minCount: 3, milli: "1000", want: 3},
		{name: "one too many", members: 4, minCount: 4, milli: "1000", proposed: 3, message: "minCount (4) cannot be satisfied: 3 scheduled, 0 remaining", last: "0/2 nodes are available"},
		{name: "none fits, and the others are not tried", members: 4, minCount: 4, milli: "4000", message: "minCount (4) cannot be satisfied: 0 scheduled, 3 remaining", last: "minCount (4) cannot be satisfied"},
		{name: "more than are needed", members: 5, minCount: 2, milli: "1000", want: 3, last: "0/2 nodes are available"},
		{name: "not complete", members: 4, minCount: 4, missing: 1, milli: "100", last: "waiting for minCount pods from a gang"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t,
				makeSharedNode("a", 16, 1, "T4"), makeSharedNode("b", 16, 2, "T4"), makePodGroup("train", int32(tt.minCount)))) //nolint:gosec // small
			pods := makeMembers("train", tt.members-tt.missing, tt.milli)
			result := schedulePodGroup(t, e, pods)
			placed, proposed, used := 0, 0, map[string]int{}
			for _, member := range result.Members {
				switch {
				case member.Node != "":
					placed++
					used[member.Node+" "+member.Pod.Annotations["gpu."+names.Domain+"/main"]]++
					if e.Pod(member.Pod.Namespace, member.Pod.Name).Spec.NodeName != member.Node {
						t.Errorf("pod %s is not on %s", member.Pod.Name, member.Node)
					}
				case member.Proposed != "":
					proposed++
				}
				if (member.Node == "") == (member.Message == "") {
					t.Errorf("pod %s: node %q and message %q", member.Pod.Name, member.Node, member.Message)
				}
			}
			if placed != tt.want || proposed != tt.proposed {
				t.Errorf("%d placed and %d proposed, want %d and %d: %v", placed, proposed, tt.want, tt.proposed, outcome(result))
			}
			if tt.milli == "500" && len(used) != 3 || tt.milli == "1000" && placed > 0 && len(used) != placed {
				t.Errorf("%d members have the devices %v", placed, used)
			}
			if result.Message != tt.message && !strings.HasPrefix(result.Message, tt.message+",") || tt.message == "" && result.Message != "" {
				t.Errorf("message %q, want %q", result.Message, tt.message)
			}
			if last := result.Members[len(result.Members)-1].Message; !strings.Contains(last, tt.last) {
				t.Errorf("last message %q, want %q in it", last, tt.last)
			}
			// Nothing of what was tried is left behind.
			free := 3 - placed
			if tt.milli == "500" {
				free = 0
			}
			for i := range 4 {
				r := schedule(t, e, makePod(fmt.Sprintf("after-%d", i), names.GPUMilliResource, "1000"))
				if fits := r.Node != ""; fits != (i < free) {
					t.Errorf("pod %d after the gang: node %q, %d devices should be free", i, r.Node, free)
				}
			}
		})
	}
}

// TestPodGroupInParts lets members come after others of their PodGroup have nodes, the
// PodGroup after its members, and members that are gated.
func TestPodGroupInParts(t *testing.T) {
	enableGangs(t)
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t, makeSharedNode("a", 16, 4, "T4"), makePodGroup("other", 1)))
	pods := makeMembers("train", 4, "1000")
	if r := schedulePodGroup(t, e, pods[:2]); r.Members[0].Node != "" || !strings.Contains(r.Members[1].Message, "pod group \"train\" to appear") {
		t.Errorf("without a PodGroup: %v, %s", outcome(r), r.Members[1].Message)
	}
	if err := e.SetMinCount(t.Context(), metav1.NamespaceDefault, "train", 3); err != nil {
		t.Fatal(err)
	}
	if r := schedulePodGroup(t, e, pods[:2]); r.Members[0].Node != "" {
		t.Errorf("two of three members: %v", outcome(r))
	}
	gated := pods[2].DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	if r := schedulePodGroup(t, e, []*corev1.Pod{pods[0], pods[1], gated}); r.Members[0].Node != "" || !strings.Contains(r.Members[0].Message, "pod default/train-2, another member") {
		t.Errorf("one member is gated: %v, %s", outcome(r), r.Members[0].Message)
	}
	if err := e.Delete(t.Context(), gated.Namespace, gated.Name); err != nil {
		t.Fatal(err)
	}
	if r := schedulePodGroup(t, e, pods[:3]); slices.Contains(outcome(r), "") || r.Message != "" {
		t.Errorf("three of three: %v, %s", outcome(r), r.Message)
	}
	// The fourth comes on its own, and again when it was deleted.
	for range 2 {
		if r := schedule(t, e, pods[3]); r.Node != "a" {
			t.Errorf("the fourth: %s", r.Message)
		}
		if err := e.Delete(t.Context(), pods[3].Namespace, pods[3].Name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPodGroupPreempts evicts what is needed for a gang, other gangs as a whole, and
// nobody if that is not asked for, or does not help.
func TestPodGroupPreempts(t *testing.T) {
	enableGangs(t)
	for _, tt := range []struct {
		name    string
		preempt bool
		members int
		// victims are the pods that go, want how many members find a node.
		victims []string
		want    int
	}{
		{name: "a pod", preempt: true, members: 2, victims: []string{"single"}, want: 2},
		{name: "a pod and a gang", preempt: true, members: 3, victims: []string{"low-0", "low-1", "single"}, want: 3},
		{name: "it would not help", preempt: true, members: 5},
		{name: "not asked for", members: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, Options{Config: loadProfile(t, gpuProfile), Preemption: tt.preempt}, makeCluster[runtime.Object](t,
				makeSharedNode("a", 16, 2, "T4"), makeSharedNode("b", 16, 2, "T4"), makePodGroup("low", 2), highPodGroup("high", int32(tt.members)))) //nolint:gosec // small
			for _, low := range schedulePodGroup(t, e, makeMembers("low", 2, "1000")).Members {
				if low.Node == "" {
					t.Fatal(low.Message)
				}
			}
			// More important than the gang, for the scheduler evicts it first.
			if r := schedule(t, e, makePod("single", names.GPUMilliResource, "1000")); r.Node == "" {
				t.Fatal(r.Message)
			}
			pods := makeMembers("high", tt.members, "1000")
			for _, pod := range pods {
				high := int32(10)
				pod.Spec.Priority = &high
			}
			result := schedulePodGroup(t, e, pods)
			placed := 0
			for _, member := range result.Members {
				if member.Node != "" {
					placed++
				}
			}
			var victims []string
			for _, victim := range result.Members[0].Victims {
				victims = append(victims, victim.Name)
				if e.Pod(victim.Namespace, victim.Name) != nil {
					t.Errorf("victim %s is still there", victim.Name)
				}
			}
			if diff := cmp.Diff(tt.victims, victims); diff != "" || placed != tt.want {
				t.Errorf("%d members are placed, want %d: %s\nvictims (-want,+got):\n%s", placed, tt.want, result.Message, diff)
			}
		})
	}
}

func highPodGroup(name string, minCount int32) *schedulingv1beta1.PodGroup {
	group, high := makePodGroup(name, minCount), int32(10)
	group.Spec.Priority = &high
	return group
}

// TestPodGroupsInQueueOrder hands out the members of a PodGroup together, when so many have
// come that it is complete.
func TestPodGroupsInQueueOrder(t *testing.T) {
	enableGangs(t)
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t, makePodGroup("early", 2), makePodGroup("late", 3), highPodGroup("high", 1)))
	at := func(minute int, pod *corev1.Pod) *corev1.Pod {
		pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC))
		return pod
	}
	early, late, high := makeMembers("early", 3, "100"), makeMembers("late", 3, "100"), makeMembers("high", 1, "100")
	sorted, err := e.InQueueOrder([]*corev1.Pod{
		at(1, late[0]), at(1, early[0]), at(2, early[1]), at(3, makePod("single")), at(4, late[1]), at(5, late[2]), at(9, early[2]), at(9, high[0]),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, together := range sorted {
		var names []string
		for _, pod := range together {
			names = append(names, pod.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if diff := cmp.Diff([]string{"high-0", "early-0 early-1 early-2", "single", "late-0 late-1 late-2"}, got); diff != "" {
		t.Errorf("order (-want,+got):\n%s", diff)
	}
}

// TestPodGroupsAreDeterministic places the same gangs in the same way at any parallelism.
func TestPodGroupsAreDeterministic(t *testing.T) {
	enableGangs(t)
	place := func(parallelism int) []string {
		var objects []runtime.Object
		for i := range 200 {
			objects = append(objects, makeSharedNode(fmt.Sprintf("n-%d", i), 16, 1+i%4, "T4"))
		}
		for i := range 10 {
			objects = append(objects, makePodGroup(fmt.Sprintf("g-%d", i), 8))
		}
		e := newEngine(t, Options{Config: loadProfile(t, gpuProfile), Seed: 7, Parallelism: parallelism}, makeCluster(t, objects...))
		var all []string
		for i := range 10 {
			all = append(all, outcome(schedulePodGroup(t, e, makeMembers(fmt.Sprintf("g-%d", i), 8, "300")))...)
		}
		return all
	}
	if diff := cmp.Diff(place(1), place(4)); diff != "" {
		t.Errorf("one goroutine and four differ:\n%s", diff)
	}
}

// TestWithoutGangGates places the members one by one, as a scheduler without the gates does.
func TestWithoutGangGates(t *testing.T) {
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster[runtime.Object](t, makeSharedNode("a", 16, 1, "T4"), makePodGroup("train", 2)))
	pods := makeMembers("train", 2, "1000")
	if first, second := schedule(t, e, pods[0]), schedule(t, e, pods[1]); first.Node != "a" || second.Node != "" {
		t.Errorf("on %q and %q", first.Node, second.Node)
	}
	if _, err := e.SchedulePodGroup(t.Context(), pods); err == nil {
		t.Error("placed as a group")
	}
}
