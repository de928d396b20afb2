// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// tellingHandle is a handle with another recorder of events.
type tellingHandle struct {
	fwk.Handle
	recorder events.EventRecorderLogger
}

func (h tellingHandle) EventRecorder() events.EventRecorderLogger { return h.recorder }

// The recorder of a scheduler folds events that differ in nothing but their text
// into one, of which it keeps the first text. A third pod on a device must not
// vanish in the event about the second.
func TestThirdConflictIsTold(t *testing.T) {
	pods := []*corev1.Pod{boundPod("a", 600, "n", "0"), boundPod("b", 600, "n", "0"), boundPod("c", 600, "n", "0")}
	_, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, member := range pl.ledger.members {
		member.handle = tellingHandle{member.handle, broadcaster.NewRecorder(scheme.Scheme, "berth-scheduler")}
	}

	// told lists the events as "the pod that has it: the pod it is related to".
	told := func() (lines []string, notes map[string]string) {
		t.Helper()
		list, err := client.EventsV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		notes = map[string]string{}
		for _, event := range list.Items {
			line := event.Regarding.Name + ":"
			if event.Related != nil {
				line += " " + event.Related.Name
			}
			if event.Reason == reasonConflict {
				lines, notes[line] = append(lines, line), event.Note
			}
		}
		slices.Sort(lines)
		return lines, notes
	}
	h := handler(t, pl)
	for i, want := range [][]string{nil, {"a: b", "b:"}, {"a: b", "a: c", "b:", "b: c", "c:"}} {
		h.OnAdd(pods[i], false)
		var lines []string
		var notes map[string]string
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			lines, notes = told()
			return slices.Equal(want, lines), nil
		})
		if diff := cmp.Diff(want, lines); err != nil || diff != "" {
			t.Fatalf("after pod %s: unexpected events (-want,+got):\n%s", pods[i].Name, diff)
		}
		for _, line := range lines {
			if conflicting := "default/a, default/b, default/c"; (strings.HasSuffix(line, "c") || line == "c:") && !strings.Contains(notes[line], conflicting) {
				t.Errorf("the event %q does not name all pods: %s", line, notes[line])
			}
		}
	}
}
