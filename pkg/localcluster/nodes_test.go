// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestFakeNodes(t *testing.T) {
	nodes := FakeNodes(4)
	if errs := validateNodes(nodes); len(errs) != 0 {
		t.Errorf("the nodes are not valid: %v", errs)
	}
	zones := map[string]string{}
	for i := range nodes {
		node := &nodes[i]
		zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
		for name, want := range map[corev1.ResourceName]string{"cpu": "32", "memory": "128Gi", "pods": "110"} {
			if got := node.Status.Allocatable[name]; got.String() != want {
				t.Errorf("%s: allocatable %s: want %s, got %s", node.Name, name, want, got.String())
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"node-0": "a", "node-1": "b", "node-2": "c", "node-3": "a"}, zones); diff != "" {
		t.Errorf("zones (-want,+got):\n%s", diff)
	}
	if got := FakeNodes(-1); len(got) != 0 {
		t.Errorf("FakeNodes(-1): want none, got %d", len(got))
	}
}

func TestValidateNodesNamesTheFirstOfTwo(t *testing.T) {
	nodes := append(FakeNodes(2), FakeNodes(1)...)
	errs := validateNodes(nodes)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), `nodes[2]: metadata.name: Duplicate value: "node-0" (the first one is nodes[0])`) {
		t.Errorf("want one error about nodes[2] and nodes[0], got %v", errs)
	}
}

func TestUsable(t *testing.T) {
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, tt := range []struct {
		name string
		node corev1.Node
		want bool
	}{
		{name: "new", node: corev1.Node{}},
		{name: "ready", node: corev1.Node{Status: corev1.NodeStatus{Conditions: ready}}, want: true},
		{name: "not ready", node: corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}},
		{name: "ready and still tainted", node: corev1.Node{
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: ready},
		}},
		{name: "ready with a taint of its own", node: corev1.Node{
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: ready},
		}, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NodeUsable(&tt.node); got != tt.want {
				t.Errorf("want %v, got %v", tt.want, got)
			}
		})
	}
}
