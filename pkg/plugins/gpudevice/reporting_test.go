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
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
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
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	must(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	for _, plugin := range pl.allocations.plugins {
		plugin.handle = tellingHandle{plugin.handle, broadcaster.NewRecorder(scheme.Scheme, "berth-scheduler")}
	}

	// told lists the events as "the pod that has it: the pod it is related to".
	told := func() (lines []string, notes map[string]string) {
		t.Helper()
		list, err := client.EventsV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		must(t, err)
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
		add(t, profile, h, pods[i])
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

// What a node says of its devices and cannot be meant is told on the node, once.
func TestNodeIsWarned(t *testing.T) {
	byUUID := boundPod("a", 500, "n", "1")
	byUUID.Annotations["gpu.berth.dev/main"] = "GPU-b"
	uuids := func(list string) *corev1.Node { return annotated(gpuNode("n", 2), names.GPUUUIDsAnnotation, list) }
	plugin := runningOn(makePod("a", "nvidia.com/gpu", "1"), "n")
	tests := []struct {
		name     string
		pods     []*corev1.Pod
		old, new *corev1.Node
		want     []string // of one event, or nil for none
	}{
		{"shared", nil, nil, gpuNode("n", 2), nil},
		{
			"True is not true", nil, nil, labeled(gpuNode("n", 2), names.GPUSharingLabel, "True"),
			[]string{reasonNodeInvalid, `metadata.labels[berth.dev/gpu-sharing]: "True" is neither "true" nor "false"`},
		},
		{
			"a cordoned device that there is not", nil, gpuNode("n", 2), annotated(gpuNode("n", 2), names.GPUCordonedAnnotation, "9"),
			[]string{reasonNodeInvalid, `metadata.annotations[berth.dev/gpu-cordoned]: "9" is not a list of devices: write indexes from 0 to 1`},
		},
		{
			"refused as before", nil, labeled(gpuNode("n", 2), names.GPUSharingLabel, "True"), labeled(labeled(gpuNode("n", 2), names.GPUSharingLabel, "True"), "a", "b"), nil,
		},
		{
			"shared by an annotation", nil, nil, annotated(makeNode("n", nil), names.GPUSharingLabel, "true"),
			[]string{reasonNodeIgnored, "annotation berth.dev/gpu-sharing=\"true\" has no effect: it must be a label"},
		},
		{
			"cordoned by a label", nil, nil, labeled(gpuNode("n", 2), names.GPUCordonedAnnotation, "1"),
			[]string{reasonNodeIgnored, "label berth.dev/gpu-cordoned=\"1\" has no effect: it must be an annotation"},
		},
		{
			"cordoned, not shared", nil, nil, annotated(pluginNode("n", a100, 2), names.GPUCordonedAnnotation, "1"),
			[]string{reasonNodeIgnored, "annotation berth.dev/gpu-cordoned has no effect without label berth.dev/gpu-sharing=true"},
		},
		{
			"shared while pods use its devices",
			[]*corev1.Pod{plugin},
			pluginNode("n", a100, 2), gpuNode("n", 2),
			[]string{reasonNotDrained, "switched to sharing while pod(s) default/a use its devices", "Drain a node"},
		},
		{
			"shared no more while shares are held",
			[]*corev1.Pod{byUUID},
			gpuNode("n", 2), pluginNode("n", a100, 2),
			[]string{reasonNotDrained, "switched from sharing while pod(s) default/a hold shares", "Drain a node"},
		},
		{"shared when it was empty", []*corev1.Pod{terminated(plugin.DeepCopy())}, pluginNode("n", a100, 2), gpuNode("n", 2), nil},
		{
			"a list in another order",
			[]*corev1.Pod{byUUID},
			uuids("GPU-a,GPU-b"), uuids("GPU-b,GPU-a"),
			[]string{reasonUUIDsChanged, "changed while 1 pod(s) have devices by UUID"},
		},
		{
			"a list without a device that is held",
			[]*corev1.Pod{byUUID},
			uuids("GPU-a,GPU-b"), uuids("GPU-a,GPU-c"),
			[]string{reasonUUIDsChanged, "no longer lists devices that are allocated to pods: pod(s) default/a (GPU-b)"},
		},
		{
			"no list any more",
			[]*corev1.Pod{byUUID},
			uuids("GPU-a,GPU-b"), gpuNode("n", 2),
			[]string{reasonUUIDsChanged, "was removed while pod(s) default/a have devices by UUID: the node takes no shares"},
		},
		{"a list that nobody goes by", nil, uuids("GPU-a,GPU-b"), uuids("GPU-a,GPU-c"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Pods: tt.pods})
			drainEvents(profile, "")
			h := pl.allocations.nodeHandler(klog.Logger{})
			if tt.old == nil {
				h.OnAdd(tt.new, false)
			} else {
				h.OnUpdate(tt.old, tt.new)
			}
			h.OnUpdate(tt.new, tt.new.DeepCopy())
			events := drainEvents(profile, "")
			if tt.want == nil {
				if len(events) > 0 {
					t.Errorf("unexpected events %q", events)
				}
				return
			}
			if len(events) != 1 {
				t.Fatalf("want one event, got %q", events)
			}
			for _, text := range tt.want {
				if !strings.Contains(events[0], text) {
					t.Errorf("%q is not in %q", text, events[0])
				}
			}
		})
	}
}

// Devices that pods have and that their node does not list are counted.
func TestUnlistedDevicesInMetrics(t *testing.T) {
	pod := boundPod("a", 2000, "n", "0,1")
	pod.Annotations["gpu.berth.dev/main"] = "GPU-a,GPU-b"
	startProfile(t, gpuArgs(), schedtest.Options{
		Name:  t.Name(),
		Nodes: []*corev1.Node{annotated(gpuNode("n", 2), names.GPUUUIDsAnnotation, "GPU-b,GPU-c")},
		Pods:  []*corev1.Pod{pod},
	})
	got := served(t, t.Name())
	if got["unlisted_devices"] != 1 || got["allocated_milli nvidia-a100"] != 1000 {
		t.Errorf("want 1 unlisted device and 1000 allocated, got %v", got)
	}
}

// A pattern that would match with a * more is named.
func TestWiderPatternIsNamed(t *testing.T) {
	model := labeled(gpuNode("n", 1), "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")
	profile, _ := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{model}})
	for pattern, want := range map[string]string{
		"NVIDIA-A100": `there are "nvidia-a100-sxm4-40gb"; the pattern "nvidia-a100*" would match "nvidia-a100-sxm4-40gb"`,
		"a100,L4":     `there are "nvidia-a100-sxm4-40gb"; the pattern "*a100*" would match "nvidia-a100-sxm4-40gb"`,
		"H100":        `there are "nvidia-a100-sxm4-40gb"`,
	} {
		_, status := profile.Filter(t.Context(), t, annotated(sharePod("p", 100), names.GPUModelAnnotation, pattern))
		if got := status.Message(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: want %q, got %q", pattern, want, got)
		}
	}
}
