// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestPreemption fills two devices with pods of low priority. A whole device for a
// pod of high priority takes the pods of one device and none of the other's.
func TestPreemption(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpuNode("gpu", "NVIDIA-A100", 2, 40960)}})
	c.ApplyManifests(t, "manifests/base")
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	if _, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), high, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	byDevice := map[string][]string{}
	for _, low := range []struct{ name, milli string }{{"a", "900"}, {"b", "300"}, {"c", "300"}, {"d", "300"}} {
		device := place(t, c, sharePod(low.name, low.milli))
		byDevice[device] = append(byDevice[device], low.name)
	}
	if diff := cmp.Diff(map[string][]string{"gpu/0": {"a"}, "gpu/1": {"b", "c", "d"}}, byDevice); diff != "" {
		t.Fatalf("Unexpected devices (-want,+got):\n%s", diff)
	}

	whole := sharePod("whole", "1000")
	whole.Spec.PriorityClassName = high.Name
	got := place(t, c, whole)
	victims, spared := byDevice[got], byDevice["gpu/0"]
	if got == "gpu/0" {
		spared = byDevice["gpu/1"]
	}
	for _, name := range victims {
		c.WaitForPodGone(t, metav1.NamespaceDefault, name)
	}
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for i := range pods.Items {
		if pods.Items[i].Name != whole.Name && pods.Items[i].DeletionTimestamp == nil {
			left = append(left, pods.Items[i].Name)
		}
	}
	slices.Sort(left)
	if diff := cmp.Diff(spared, left); diff != "" {
		t.Errorf("The pod went to %s; unexpected pods beside it (-want,+got):\n%s", got, diff)
	}

	// The next one takes the other device. Then only pods of its own priority are
	// left, and the event of a third says what is lacking.
	again := sharePod("again", "1000")
	again.Spec.PriorityClassName = high.Name
	create(t, c, again)
	if got := placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "again")); got == placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "whole")) {
		t.Errorf("both whole devices are %s", got)
	}
	third := sharePod("third", "1000")
	third.Spec.PriorityClassName = high.Name
	create(t, c, third)
	expectEvent(t, c, "third", "node(s) didn't have enough free device share")
}
