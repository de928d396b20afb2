// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

const nodesFile = `
apiVersion: v1
kind: Node
metadata: {name: large, labels: {size: large}}
status: {capacity: {cpu: "64", memory: 256Gi, pods: "250", nvidia.com/gpu: "8"}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: tainted, resourceVersion: "12", uid: 8a1c, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {taints: [{key: dedicated, effect: NoSchedule}]}
  status:
    capacity: {cpu: "4", memory: 8Gi, pods: "10"}
    allocatable: {cpu: "3", memory: 7Gi, pods: "10"}
    conditions: [{type: Ready, status: "False"}]
- apiVersion: v1
  kind: Node
  metadata: {name: broken, annotations: {kwok.x-k8s.io/status: custom}}
  status:
    capacity: {cpu: "4", memory: 8Gi, pods: "10"}
    conditions: [{type: Ready, status: "False", reason: KubeletNotReady}]
`

func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return "missing"
}

func TestNodes(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 1, NodesFile: file(t, "nodes.yaml", nodesFile)})
	node := func(t *testing.T, name string) *corev1.Node {
		t.Helper()
		node, err := c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node
	}

	for _, tt := range []struct {
		name, cpu, allocatable string
		ready                  corev1.ConditionStatus
	}{
		{name: "node-0", cpu: "32", allocatable: "32", ready: corev1.ConditionTrue},
		{name: "large", cpu: "64", allocatable: "64", ready: corev1.ConditionTrue},
		{name: "tainted", cpu: "4", allocatable: "3", ready: corev1.ConditionTrue},
		{name: "broken", cpu: "4", allocatable: "4", ready: corev1.ConditionFalse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := node(t, tt.name)
			if ready(got) != tt.ready {
				t.Errorf("ready: want %s, got %s", tt.ready, ready(got))
			}
			if got := got.Status.Capacity.Cpu().String(); got != tt.cpu {
				t.Errorf("CPU capacity: want %s, got %s", tt.cpu, got)
			}
			if got := got.Status.Allocatable.Cpu().String(); got != tt.allocatable {
				t.Errorf("allocatable CPU: want %s, got %s", tt.allocatable, got)
			}
			if got := got.Labels[corev1.LabelHostname]; got != tt.name {
				t.Errorf("hostname label: want %s, got %q", tt.name, got)
			}
		})
	}
	if got := node(t, "large").Status.Allocatable["nvidia.com/gpu"]; got.String() != "8" {
		t.Errorf("allocatable GPUs of large: want 8, got %s", got.String())
	}

	t.Run("one that kubectl creates becomes ready", func(t *testing.T) {
		c.Apply(t, "{apiVersion: v1, kind: Node, metadata: {name: later}, status: {capacity: {cpu: '2', memory: 4Gi, pods: '10'}, allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}}")
		framework.WaitForCondition(t, framework.WaitTimeout, "node later to be ready", func() (bool, error) {
			return ready(node(t, "later")) == corev1.ConditionTrue, nil
		})
		if got := node(t, "later").Status.Allocatable.Cpu().String(); got != "2" {
			t.Errorf("allocatable CPU: want 2, got %s", got)
		}
		c.Apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: there, namespace: default}, spec: {nodeName: later, containers: [{name: c, image: i}]}}")
		c.WaitForPodRunning(t, "default", "there")
		c.Kubectl(t, "delete", "pod", "there", "--timeout=60s")
	})

	// What the help says of containers is what kubectl gets to hear.
	t.Run("a pod that kwok runs has no logs", func(t *testing.T) {
		c.Apply(t, "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {nodeName: node-0, containers: [{name: c, image: i}]}}")
		c.WaitForPodRunning(t, "default", "p")
		const answer = "no preferred addresses found"
		if _, err := c.KubectlAs(t, c.Kubeconfig, "", "logs", "p"); err == nil || !strings.Contains(err.Error(), answer) {
			t.Errorf("kubectl logs: want an error that contains %q, got %v", answer, err)
		}
		help, err := exec.CommandContext(t.Context(), framework.Binary(t, framework.BerthLocal), "up", "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(help), answer) || !strings.Contains(string(help), "No container runs") {
			t.Errorf("help: want it to say that no container runs and what kubectl answers, got:\n%s", help)
		}
	})

	t.Run("one made not ready stays so", func(t *testing.T) {
		c.Kubectl(t, "annotate", "node", "later", "kwok.x-k8s.io/status=custom")
		c.Kubectl(t, "patch", "node", "later", "--subresource=status", "--type=strategic",
			"-p", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`)
		// Its taint shows that the controllers have noticed; kwok would have been faster.
		framework.WaitForCondition(t, framework.WaitTimeout, "the not-ready taint on node later", func() (bool, error) {
			for _, taint := range node(t, "later").Spec.Taints {
				if taint.Key == corev1.TaintNodeNotReady {
					return true, nil
				}
			}
			return false, nil
		})
		if got := ready(node(t, "later")); got != corev1.ConditionFalse {
			t.Errorf("ready: want False, got %s", got)
		}
	})
}
