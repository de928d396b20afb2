// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/pending"
)

// That a gang's members are told of each other is shown with a real scheduler, in
// test/integration/scheduler.

// waiting is a pod that waits for its gang, and what it was rejected with. As the
// scheduler does in another goroutine, it then gives its node back.
type waiting struct {
	fwk.WaitingPod
	pod      *corev1.Pod
	reserved *reservedMembers
	told     string
}

func (w *waiting) GetPod() *corev1.Pod { return w.pod }

func (w *waiting) Reject(_, message string) bool {
	w.told = message
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

// TestGangHandle: every member is told how many had a node when the gang was given
// up, those included that lost theirs meanwhile, and members of other gangs are not
// counted.
func TestGangHandle(t *testing.T) {
	reserved := &reservedMembers{pods: map[gangName]sets.Set[types.UID]{}}
	var pods []*waiting
	for name, gang := range map[string]string{"a-0": "a", "a-1": "a", "b-0": "b"} {
		pod := st.MakePod().Namespace("default").Name(name).UID(name).Label(PodGroupLabel, gang).Obj()
		reserved.add(pod)
		pods = append(pods, &waiting{pod: pod, reserved: reserved})
	}
	reserved.add(st.MakePod().Namespace("default").Name("single").Obj())
	leaving := st.MakePod().Namespace("default").Name("a-2").UID("a-2").Label(PodGroupLabel, "a").Obj()
	reserved.add(leaving)

	gangHandle{waitingHandle{pods: pods}, reserved}.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Reject("", "optimistic rejection") })
	reserved.remove(leaving)

	got := map[string]string{}
	for _, pod := range pods {
		got[pod.pod.Name] = pod.told
	}
	want := map[string]string{"a-0": pending.GangReason(3, false), "a-1": pending.GangReason(3, false), "b-0": pending.GangReason(1, false)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want,+got):\n%s", diff)
	}
	if len(reserved.pods) > 0 {
		t.Errorf("not forgotten: %v", reserved.pods)
	}
}
