// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestIsSchedulableAfterNodeChange(t *testing.T) {
	share, model := sharePod("p", 500), annotated(sharePod("p", 500), names.GPUModelAnnotation, "NVIDIA-H100")
	h100 := func() *corev1.Node { return labeled(gpuNode("n", 1), "nvidia.com/gpu.product", "NVIDIA-H100") }
	tests := []struct {
		name     string
		args     *config.GPUDeviceArgs
		pod      *corev1.Pod
		old, new *corev1.Node
		want     fwk.QueueingHint
	}{
		{"a shared node arrives", nil, share, nil, gpuNode("n", 1), fwk.Queue},
		{"a node without devices arrives", nil, share, nil, makeNode("n", nil), fwk.QueueSkip},
		{"a node of another model arrives", nil, model, nil, gpuNode("n", 1), fwk.QueueSkip},
		{"a node of the model arrives", nil, model, nil, h100(), fwk.Queue},
		{"a node is shared", nil, share, makeNode("n", nil), gpuNode("n", 1), fwk.Queue},
		{"a node is shared no more", nil, share, gpuNode("n", 1), makeNode("n", nil), fwk.QueueSkip},
		{"a node is labeled with the model", nil, model, gpuNode("n", 1), h100(), fwk.Queue},
		{"something else is labeled", nil, share, gpuNode("n", 1), labeled(gpuNode("n", 1), "a", "b"), fwk.QueueSkip},
		{"a device is uncordoned", nil, share, annotated(gpuNode("n", 2), names.GPUCordonedAnnotation, "0,1"), annotated(gpuNode("n", 2), names.GPUCordonedAnnotation, "1"), fwk.Queue},
		{"a device is cordoned", nil, share, gpuNode("n", 2), annotated(gpuNode("n", 2), names.GPUCordonedAnnotation, "1"), fwk.QueueSkip},
		{"a device more", nil, share, gpuNode("n", 1), gpuNode("n", 2), fwk.Queue},
		{"a device less", nil, share, gpuNode("n", 2), gpuNode("n", 1), fwk.QueueSkip},
		{"other devices are listed", nil, share, annotated(gpuNode("n", 1), names.GPUUUIDsAnnotation, "GPU-a"), annotated(gpuNode("n", 1), names.GPUUUIDsAnnotation, "GPU-b"), fwk.Queue},
		{"a node is shared no more, for a claim", nil, claimPod("p"), gpuNode("n", 1), makeNode("n", nil), fwk.Queue},
		{"a node is shared, for a claim", nil, claimPod("p"), makeNode("n", nil), gpuNode("n", 1), fwk.QueueSkip},
		{"more memory", nil, share, labeled(gpuNode("n", 1), "nvidia.com/gpu.memory", "1024"), gpuNode("n", 1), fwk.Queue},
		{"the device plugin leaves a shared node", nil, share, labeled(pluginNode("n", a100, 1), names.GPUSharingLabel, "true"), gpuNode("n", 1), fwk.Queue},
		{"a malformed share", nil, sharePod("p", 1500), nil, gpuNode("n", 1), fwk.QueueSkip},
		{"a node with a device plugin, for its pods", nil, makePod("p", "nvidia.com/gpu", "1"), gpuNode("n", 1), pluginNode("n", a100, 1), fwk.Queue},
		{"a node without devices, for a pod that is forbidden others", gpuArgs(withNonGPUPods(config.NonGPUPodsForbid)), makePod("p"), gpuNode("n", 1), makeNode("n", nil), fwk.Queue},
		{"a node with devices, for a pod that is forbidden it", gpuArgs(withNonGPUPods(config.NonGPUPodsForbid)), makePod("p"), nil, gpuNode("n", 1), fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil {
				tt.args = gpuArgs()
			}
			_, pl := newProfile(t, tt.args, schedtest.Options{})
			var old any
			if tt.old != nil {
				old = tt.old
			}
			expectHint(t, pl.isSchedulableAfterNodeChange, tt.pod, old, tt.new, tt.want)
		})
	}
}

func TestIsSchedulableAfterPodDeleted(t *testing.T) {
	assumed := sharePod("assumed", 500)
	assumed.Spec.NodeName = "n"
	nominated := sharePod("nominated", 500)
	nominated.Status.NominatedNodeName = "n"
	h100 := annotated(sharePod("p", 500), names.GPUModelAnnotation, "NVIDIA-H100")
	tests := []struct {
		name string
		pod  *corev1.Pod
		gone *corev1.Pod
		want fwk.QueueingHint
	}{
		{"a pod with a share", sharePod("p", 500), boundPod("gone", 500, "n", "0"), fwk.Queue},
		{"an assumed pod that is given up", sharePod("p", 500), assumed, fwk.Queue},
		{"a pod that was nominated", sharePod("p", 500), nominated, fwk.Queue},
		{"a pod that was nominated for a node that the pod cannot use", h100, nominated, fwk.QueueSkip},
		{"a pod that waited", sharePod("p", 500), sharePod("gone", 500), fwk.QueueSkip},
		{"a pod without a share", sharePod("p", 500), func() *corev1.Pod { p := makePod("gone"); p.Spec.NodeName = "n"; return p }(), fwk.QueueSkip},
		{"on a node that the pod cannot use", h100, boundPod("gone", 500, "n", "0"), fwk.QueueSkip},
		{"on a node that was never looked at", h100, boundPod("gone", 500, "new", "0"), fwk.Queue},
		{"for a pod of the device plugin", makePod("p", "nvidia.com/gpu", "1"), boundPod("gone", 500, "n", "0"), fwk.QueueSkip},
		{"a pod of the device plugin, on a shared node", sharePod("p", 500), runningOn(makePod("gone", "nvidia.com/gpu", "1"), "n"), fwk.Queue},
		{"a pod with a MIG device, on a shared node", sharePod("p", 500), runningOn(makePod("gone", "nvidia.com/mig-1g.5gb", "1"), "n"), fwk.Queue},
		{"a pod with a claim, on a shared node", sharePod("p", 500), runningOn(claimPod("gone"), "n"), fwk.Queue},
		{"a pod of the device plugin, on a node with one", sharePod("p", 500), runningOn(makePod("gone", "nvidia.com/gpu", "1"), "plugin"), fwk.QueueSkip},
		{"a share on a node with a device plugin, for a pod of it", makePod("p", "nvidia.com/gpu", "1"), boundPod("gone", 500, "plugin", "0"), fwk.Queue},
		{"a share on a node with a device plugin, for a claim", claimPod("p"), boundPod("gone", 500, "plugin", "0"), fwk.Queue},
		{"a share of zero", sharePod("p", 500), runningOn(sharePod("gone", 0), "n"), fwk.QueueSkip},
		{"a pod of the device plugin, for another", makePod("p", "nvidia.com/gpu", "1"), runningOn(makePod("gone", "nvidia.com/gpu", "1"), "plugin"), fwk.QueueSkip},
		{"for a malformed share", sharePod("p", 1500), boundPod("gone", 500, "n", "0"), fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1), pluginNode("plugin", a100, 1)}})
			profile.NewCycle(t.Context(), t, sharePod("looks-at-the-nodes", 1))
			expectHint(t, pl.isSchedulableAfterPodDeleted, tt.pod, tt.gone, nil, tt.want)
		})
	}
}

func TestIsSchedulableAfterPodUpdate(t *testing.T) {
	plain := sharePod("p", 500)
	constrained := annotated(sharePod("p", 500), names.GPUModelAnnotation, "a")
	tests := []struct {
		name     string
		old, new *corev1.Pod
		want     fwk.QueueingHint
	}{
		{"the model is corrected", constrained, annotated(sharePod("p", 500), names.GPUModelAnnotation, "b"), fwk.Queue},
		{"the model is removed", constrained, plain, fwk.Queue},
		{"a minimum is set", plain, annotated(sharePod("p", 500), names.GPUMinMemoryAnnotation, "1Gi"), fwk.Queue},
		{"something else", constrained, annotated(constrained.DeepCopy(), "x", "y"), fwk.QueueSkip},
		{"another pod", annotated(sharePod("q", 500), names.GPUModelAnnotation, "a"), sharePod("q", 500), fwk.QueueSkip},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, pl := newProfile(t, gpuArgs(), schedtest.Options{})
			expectHint(t, pl.isSchedulableAfterPodUpdate, plain, tt.old, tt.new, tt.want)
		})
	}
}

// A hint that cannot read its event must not strand the pod.
func TestHintsOnStrangeObjects(t *testing.T) {
	_, pl := newProfile(t, gpuArgs(), schedtest.Options{})
	events, err := pl.EventsToRegister(t.Context())
	if err != nil || len(events) != 3 {
		t.Fatalf("want 3 events, got %v (%v)", events, err)
	}
	for _, event := range events {
		if hint, err := event.QueueingHintFn(klog.FromContext(t.Context()), sharePod("p", 1), "x", "y"); hint != fwk.Queue || err == nil {
			t.Errorf("%v: want Queue and an error, got %v (%v)", event.Event, hint, err)
		}
	}
}

func expectHint(t *testing.T, hint fwk.QueueingHintFn, pod *corev1.Pod, old, updated any, want fwk.QueueingHint) {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	got, err := hint(logger, pod, old, updated)
	must(t, err)
	if got != want {
		t.Errorf("want %v, got %v", want, got)
	}
}
