// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling/core"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// That a gang's members are told of each other is shown with a real scheduler, in
// test/integration/scheduler.

// waiting is a pod that waits for its gang. When it is rejected, it gives its node back, as
// the scheduler does in another goroutine.
type waiting struct {
	fwk.WaitingPod
	pod      *corev1.Pod
	reserved *reservedMembers
}

func (w *waiting) GetPod() *corev1.Pod { return w.pod }

func (w *waiting) Reject(_, _ string) bool {
	w.reserved.remove(w.pod)
	return true
}

type waitingHandle struct {
	fwk.Handle
	pods []*waiting
}

func (h waitingHandle) IterateOverWaitingPods(visit func(fwk.WaitingPod)) {
	for _, pod := range h.pods {
		visit(pod)
	}
}

// TestGangHandle: for every member it is recorded how many had a node when the gang was
// given up, including those that lost theirs meanwhile; members of other gangs are not
// counted. The record is read once.
func TestGangHandle(t *testing.T) {
	reserved := newReservedMembers()
	var pods []*waiting
	for name, gang := range map[string]string{"a-0": "a", "a-1": "a", "b-0": "b"} {
		pod := st.MakePod().Namespace("default").Name(name).UID(name).Label(podgroup.Label, gang).Obj()
		reserved.add(pod)
		pods = append(pods, &waiting{pod: pod, reserved: reserved})
	}
	reserved.add(st.MakePod().Namespace("default").Name("single").Obj())
	leaving := st.MakePod().Namespace("default").Name("a-2").UID("a-2").Label(podgroup.Label, "a").Obj()
	reserved.add(leaving)

	gangHandle{waitingHandle{pods: pods}, reserved}.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Reject("", "optimistic rejection") })
	reserved.remove(leaving)

	want := map[types.UID]gaveUp{"a-0": {found: 3}, "a-1": {found: 3}, "b-0": {found: 1}}
	if diff := cmp.Diff(want, reserved.gaveUp, cmp.AllowUnexported(gaveUp{})); diff != "" {
		t.Errorf("recorded (-want,+got):\n%s", diff)
	}
	g := &gangs{reserved: reserved}
	for _, pod := range pods {
		found, this, ok := g.GaveUp(pod.pod)
		if want := want[pod.pod.UID]; !ok || found != want.found || this {
			t.Errorf("pod %s: %d members, because of it: %v, known: %v", pod.pod.Name, found, this, ok)
		}
	}
	if len(reserved.pods) > 0 || len(reserved.gaveUp) > 0 {
		t.Errorf("not forgotten: %v %v", reserved.pods, reserved.gaveUp)
	}
}

// snapshotHandle has a snapshot and nothing else.
type snapshotHandle struct {
	fwk.Handle
	snapshot fwk.SharedLister
}

func (h snapshotHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }

// TestMinResourcesWithShares: no node advertises shares, so a PodGroup's minResources that
// name some pass Coscheduling's check of the cluster; what nodes have is checked as before.
func TestMinResourcesWithShares(t *testing.T) {
	node := st.MakeNode().Name("n").Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "4", corev1.ResourcePods: "10"}).Obj()
	handle := gangHandle{Handle: snapshotHandle{snapshot: cache.NewSnapshot(nil, []*corev1.Node{node})}}
	for _, tt := range []struct {
		name      string
		resources corev1.ResourceList
		want      bool
	}{
		{"shares", corev1.ResourceList{names.GPUMilliResource: resource.MustParse("64k"), names.GPUMemoryResource: resource.MustParse("5Ti"), corev1.ResourceCPU: resource.MustParse("4")}, true},
		{"too much CPU", corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500"), corev1.ResourceCPU: resource.MustParse("5")}, false},
		{"another resource", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
			if err != nil {
				t.Fatal(err)
			}
			if err := core.CheckClusterResource(t.Context(), nodes, tt.resources, "default/gang"); (err == nil) != tt.want {
				t.Errorf("want it to pass: %t, got %v", tt.want, err)
			}
		})
	}
}
