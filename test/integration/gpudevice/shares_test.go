// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestShares packs halves, writes each pod once, and survives kill -9: also when
// the scheduler sends its API calls through a queue.
func TestShares(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{name: "default"},
		{name: "asynchronous API calls", args: []string{"--feature-gates=SchedulerAsyncAPICalls=true"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { testShares(t, framework.SchedulerOptions{Args: tt.args}) })
	}
}

func testShares(t *testing.T, options framework.SchedulerOptions) {
	t.Helper()
	c := framework.Start(t, framework.Options{
		NodeCount: 1,
		Nodes:     []corev1.Node{framework.GPUNode("gpu", "NVIDIA-A100", 2, 40960)},
		Audit:     true,
	})
	c.ApplyManifests(t, "manifests/base")
	torn := watchForTornWrites(t, c)
	scheduler := c.StartBerthScheduler(t, gpuProfile, options)

	got := map[string]string{}
	for _, name := range []string{"half-0", "half-1", "half-2"} {
		got[name] = c.PlacePod(t, framework.SharePod(name, "500"))
	}
	want := map[string]string{"half-0": "gpu/0", "half-1": "gpu/0", "half-2": "gpu/1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected devices (-want,+got):\n%s", diff)
	}

	// A pod without devices keeps off the node that has them.
	plain := framework.SharePod("plain", "1")
	plain.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	if got := c.PlacePod(t, plain); got != "node-0/" {
		t.Errorf("a pod without devices went to %s", got)
	}

	// One write each, the Binding; and the pods' events are none of pods'.
	wantWrites := map[string][]string{}
	for _, name := range []string{"half-0", "half-1", "half-2", "plain"} {
		wantWrites[name] = []string{"create pods/binding"}
	}
	if diff := cmp.Diff(wantWrites, writes(t, c)); diff != "" {
		t.Errorf("Unexpected writes to pods (-want,+got):\n%s", diff)
	}

	// A successor counts what its predecessor gave away: half a device is free.
	scheduler.Kill()
	c.StartBerthScheduler(t, gpuProfile, options)
	c.CreatePod(t, framework.SharePod("whole", "1000"))
	c.WaitForEvent(t, metav1.NamespaceDefault, "whole", "FailedScheduling", "node(s) didn't have enough free device share")
	if got := c.PlacePod(t, framework.SharePod("half-3", "500")); got != "gpu/1" {
		t.Errorf("the fourth half went to %s", got)
	}

	// A terminated pod frees its share at once, also with its object still there,
	// and that wakes the pod that waits: long before the queue is flushed.
	for _, name := range []string{"half-0", "half-1"} {
		terminate(t, c, name)
	}
	if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "whole")); got != "gpu/0" {
		t.Errorf("the whole device is %s", got)
	}
	if message := torn(); message != "" {
		t.Error(message)
	}
}

// TestRefusedAtOnce has pods that can never run. Each says why in its event, and
// none holds up the others.
func TestRefusedAtOnce(t *testing.T) {
	c := framework.Start(t, framework.Options{
		NodeCount: 1,
		Nodes:     []corev1.Node{framework.GPUNode("gpu", "NVIDIA-A100", 2, 40960)},
	})
	c.ApplyManifests(t, "manifests/base")
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})

	unknownModel := framework.SharePod("unknown-model", "500")
	unknownModel.Annotations = map[string]string{names.GPUModelAnnotation: "NVIDIA-H100*"}
	percent := framework.SharePod("percent", "500")
	percent.Annotations = map[string]string{names.GPUModelAnnotation: "A100%s"}
	tooLarge := framework.SharePod("too-large", "500")
	tooLarge.Spec.Containers[0].Resources.Limits[names.GPUMemoryResource] = resource.MustParse("80Gi")
	both := framework.SharePod("both-forms", "500")
	both.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1")
	tests := []struct {
		pod  *corev1.Pod
		want string
	}{
		{framework.SharePod("malformed", "1500"), `container "main": spec.containers[0].resources.limits[berth.dev/gpu-milli]: "1500" is neither a share nor whole devices`},
		{both, "asks for a share while spec.containers[0].resources.limits[nvidia.com/gpu] asks for whole devices"},
		{tooLarge, "the largest berth.dev/gpu-memory that a container can be given here is 40Gi"},
		{unknownModel, `no node has a GPU model that matches annotation berth.dev/gpu-model: there are "nvidia-a100"`},
		{percent, `"A100\x25s"`},
	}
	for _, tt := range tests {
		c.CreatePod(t, tt.pod)
	}
	for _, tt := range tests {
		c.WaitForEvent(t, metav1.NamespaceDefault, tt.pod.Name, "FailedScheduling", tt.want)
	}
	if got := c.PlacePod(t, framework.SharePod("fine", "500")); got != "gpu/0" {
		t.Errorf("a pod that fits went to %s", got)
	}

	// The annotation is corrected, and the pod is woken.
	c.Kubectl(t, "annotate", "pod", "unknown-model", "--overwrite", names.GPUModelAnnotation+"=nvidia-*")
	if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "unknown-model")); got != "gpu/0" {
		t.Errorf("the corrected pod went to %s", got)
	}
	// So does a node that comes with what is missing.
	larger := framework.GPUNode("larger", "NVIDIA-H100", 1, 81920)
	c.CreateNode(t, larger)
	if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "too-large")); got != "larger/0" {
		t.Errorf("the pod that needs much memory went to %s", got)
	}
	t.Run("another scheduler serves the same pool", func(t *testing.T) { closesToAnother(t, c) })
}

// watchForTornWrites watches pods until the test ends. The function that it
// returns says which version of a pod had a node and no record of its devices, or
// the other way round; "" if none had.
func watchForTornWrites(t *testing.T, c *framework.Cluster) func() string {
	t.Helper()
	w, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	torn := make(chan string, 1)
	go func() {
		var found []string
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || len(pod.Spec.Containers[0].Resources.Limits) == 0 {
				continue
			}
			_, recorded := pod.Annotations[names.GPUAssignedAnnotation]
			_, readable := pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"]
			if assigned := pod.Spec.NodeName != ""; assigned != recorded || assigned != readable {
				found = append(found, pod.Name+" at version "+pod.ResourceVersion+" has a node or its devices, and not both")
			}
		}
		torn <- strings.Join(found, "; ")
	}()
	return func() string {
		w.Stop()
		return <-torn
	}
}

// terminate marks a pod as one whose containers have ended.
func terminate(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	_, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}
