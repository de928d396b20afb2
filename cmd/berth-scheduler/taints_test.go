// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestWatchTaints: a node is told of when it is first seen, and when it becomes one that
// lacks the taint, but not again with each heartbeat.
func TestWatchTaints(t *testing.T) {
	marked := func(name string, effects ...corev1.TaintEffect) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tenant": "a"}}}
		for _, effect := range effects {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "tenant-taint", Value: "a", Effect: effect})
		}
		return node
	}
	client := fake.NewClientset(
		marked("none"), marked("other", corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule), marked("right", corev1.TaintEffectNoSchedule),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "shared", Labels: map[string]string{names.GPUSharingLabel: "true"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	recorder := events.NewFakeRecorder(100)
	ctx := klog.NewContext(t.Context(), logr.Discard())
	tenancy := &config.LabelPresenceTenancy{NodeLabelKey: "tenant", NodeTaintKey: "tenant-taint"}
	if err := watchTaints(ctx, factory, []*config.LabelPresenceTenancy{tenancy}, true, recorder); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	got := []string{<-recorder.Events, <-recorder.Events, <-recorder.Events}
	for _, want := range []string{
		"the taint tenant-taint is missing beside the label tenant: other schedulers place pods there: kubectl taint node none tenant-taint=a:NoSchedule",
		"the taint tenant-taint beside the label tenant has the effect NoExecute and PreferNoSchedule, and not NoSchedule",
		"the taint berth.dev/gpu-sharing is missing beside the label berth.dev/gpu-sharing",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no event %q in\n%s", want, strings.Join(got, "\n"))
		}
	}

	// What comes next is about the node that changed: nothing was told of a heartbeat before.
	heartbeat := marked("none")
	heartbeat.Status.Phase = corev1.NodeRunning
	for _, node := range []*corev1.Node{heartbeat, marked("right", corev1.TaintEffectPreferNoSchedule)} {
		if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if next := <-recorder.Events; !strings.Contains(next, "kubectl taint node right ") {
		t.Errorf("the next event is %q", next)
	}
}
