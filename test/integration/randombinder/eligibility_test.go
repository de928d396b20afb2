// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// longBackoff makes an event the only thing that can have a pod tried again
// before the test gives up.
const longBackoff = "--pod-initial-backoff=1h"

const maxBackoff = "--pod-max-backoff=1h"

// pendingPodIsWokenAndSaysWhyItWaits shows that the changes arrive through the watches, which
// select pods and nodes; which changes wake a pod, a unit test shows.
func pendingPodIsWokenAndSaysWhyItWaits(t *testing.T) {
	tests := []struct {
		name    string
		cordon  bool
		change  func(*corev1.Pod)
		fit     string
		reason  string
		wayOut  string
		resolve func(c *framework.Cluster, first string)
	}{
		{
			name: "uncordon", cordon: true, change: tolerateAll, fit: "constraints", reason: "1 node(s) cordoned", wayOut: "kubectl uncordon",
			resolve: func(c *framework.Cluster, _ string) { c.Kubectl(t, "uncordon", "node-0") },
		},
		{
			name: "room on the node", fit: "resources", reason: "1 node(s) with too little cpu left", wayOut: "free or add some",
			change: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
			},
			resolve: func(c *framework.Cluster, first string) { c.Kubectl(t, "delete", "pod", first, "--wait=false") },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := localcluster.FakeNodes(1)
			nodes[0].Spec.Unschedulable = tt.cordon
			c := start(t, nodes)
			// Events stay, so no two pods may have the same name.
			waits, first := "waits-"+tt.fit, "first-"+tt.fit
			run(t, c, "--fit="+tt.fit, longBackoff, maxBackoff)
			if !tt.cordon {
				create(t, c, newPod(first, tt.change))
				c.WaitForPodScheduled(t, "default", first)
			}
			create(t, c, newPod(waits, tt.change))
			condition := framework.PodScheduledCondition(c.WaitForPodUnschedulable(t, "default", waits))
			event := c.WaitForEvent(t, "default", waits, "FailedScheduling", "")
			for source, text := range map[string]string{"condition": condition.Message, "event": event} {
				for _, want := range []string{"0/1 nodes are available", tt.reason, tt.wayOut} {
					if !strings.Contains(text, want) {
						t.Errorf("%s says %q, want it to contain %q", source, text, want)
					}
				}
			}

			tt.resolve(c, first)

			pod := c.WaitForPodScheduled(t, "default", waits)
			if got := framework.PodScheduledCondition(pod).Status; got != corev1.ConditionTrue {
				t.Errorf("PodScheduled is %s after the pod got a node", got)
			}
			c.WaitForEvent(t, "default", waits, "Scheduled", "picked at random from 1 of ")
		})
	}
}

func podsThatAreNotItsOwnStayPending(t *testing.T) {
	c := start(t, localcluster.FakeNodes(3))
	for _, namespace := range []string{"blue", "red"} {
		c.Kubectl(t, "create", "namespace", namespace)
	}
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }
	create(t, c, newPod("gated", inNamespace("blue"), gated))
	create(t, c, newPod("outside", inNamespace("red")))
	create(t, c, newPod("outside"))
	create(t, c, newPod("foreign", inNamespace("blue"), func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" }))
	for _, fit := range []string{"constraints", "resources"} {
		t.Run(fit, func(t *testing.T) {
			p := run(t, c, "--namespaces=blue", "--fit="+fit)
			// That the others were not tried at all, the audit log says below.
			create(t, c, newPod("own-"+fit, inNamespace("blue")))
			c.WaitForPodScheduled(t, "blue", "own-"+fit)
			if code := p.Stop(t); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0", code)
			}
		})
	}
	p := run(t, c, "--namespaces=blue")
	if _, err := c.Client.CoreV1().Pods("blue").Patch(t.Context(), "gated", types.StrategicMergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitForPodScheduled(t, "blue", "gated")
	p.Stop(t)

	asked := map[string]bool{}
	for _, b := range bindings(t, c) {
		asked[b.pod] = true
		if b.code >= 300 {
			t.Errorf("a Binding of %s was refused with %d: the pod should not have been tried", b.pod, b.code)
		}
	}
	for _, pod := range list(t, c, "") {
		name := pod.Namespace + "/" + pod.Name
		switch name {
		case "red/outside", "default/outside", "blue/foreign":
			if pod.Spec.NodeName != "" || asked[name] {
				t.Errorf("%s was bound", name)
			}
			if condition := framework.PodScheduledCondition(&pod); condition != nil {
				t.Errorf("%s was given the condition %v", name, condition)
			}
		}
	}
}

// requireFit adds up what the API server has on each node.
func requireFit(t *testing.T, c *framework.Cluster, nodes []corev1.Node) {
	t.Helper()
	cpu, count := map[string]int64{}, map[string]int64{}
	for _, pod := range list(t, c, "") {
		cpu[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		count[pod.Spec.NodeName]++
	}
	for i := range nodes {
		node := &nodes[i]
		if got, limit := cpu[node.Name], node.Status.Allocatable.Cpu().MilliValue(); got > limit {
			t.Errorf("%s holds %dm CPU, has %dm", node.Name, got, limit)
		}
		if got, limit := count[node.Name], node.Status.Allocatable.Pods().Value(); got > limit {
			t.Errorf("%s holds %d pods, has room for %d", node.Name, got, limit)
		}
	}
}
