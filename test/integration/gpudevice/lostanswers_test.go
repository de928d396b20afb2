// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestLostAnswers puts a proxy in front of the API server that loses the answers
// to Bindings: of every three, one after it was written, and one before. Every pod
// must be bound once, with the devices that it was promised, and no device may be
// given away twice meanwhile.
func TestLostAnswers(t *testing.T) {
	const pods, devices = 30, 8
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{gpuNode("a", "NVIDIA-A100", devices, 40960), gpuNode("b", "NVIDIA-A100", devices, 40960)},
		Audit: true,
	})
	c.ApplyManifests(t, "manifests/base")
	proxy := startProxy(t, c, func(n int64) treatment { return treatment(n % 3) })
	scheduler := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{Kubeconfig: proxy.kubeconfig(t, c)})

	for i := range pods {
		create(t, c, sharePod(fmt.Sprintf("p%02d", i), "500"))
	}
	used := map[string]int{}
	for i := range pods {
		pod := c.WaitForPodScheduled(t, metav1.NamespaceDefault, fmt.Sprintf("p%02d", i))
		device := placement(pod)
		if used[device]++; used[device] > 2 {
			t.Errorf("%s is given to %d pods of half a device", device, used[device])
		}
		if want := fmt.Sprintf("main=%s:500m:20480Mi", strings.Split(device, "/")[1]); pod.Annotations[names.GPUAssignedAnnotation] != want {
			t.Errorf("%s: want record %q, got %q", pod.Name, want, pod.Annotations[names.GPUAssignedAnnotation])
		}
	}
	if lost, dropped := proxy.given[loseAnswer].Load(), proxy.given[dropRequest].Load(); lost < pods/4 || dropped < pods/4 {
		t.Errorf("only %d answers and %d requests were lost: this test shows little", lost, dropped)
	}
	// The audit log has what came through. A pod whose answer was lost is not sent
	// a second time, because the API says that it is bound.
	for pod, got := range writes(t, c) {
		// Those that waited before the first share was given away were fenced.
		got = slices.DeleteFunc(got, func(write string) bool { return write == "patch pods/status" })
		if len(got) != 1 || got[0] != "create pods/binding" {
			t.Errorf("%s: want one Binding, got %q", pod, got)
		}
	}
	scheduler.WaitForOutput(t, framework.WaitTimeout, "The pod was bound after all")
	for _, metric := range []string{
		`berth_gpudevice_allocated_milli{model="nvidia-a100",profile="berth-scheduler"} 15000`,
		`berth_gpudevice_reservations{profile="berth-scheduler"} 0`,
		"berth_gpudevice_assignment_conflicts_total 0",
	} {
		framework.WaitForCondition(t, framework.WaitTimeout, metric, func() (bool, error) {
			return strings.Contains(scheduler.Metrics(t), metric), nil
		})
	}
}
