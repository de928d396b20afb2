// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWithNodes replaces one node of two, and leaves the cluster that it copies
// alone.
func TestWithNodes(t *testing.T) {
	node := func(name, arch string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", Labels: map[string]string{corev1.LabelArchStable: arch}}}
	}
	c := &Cluster{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	a, b := node("a", "old"), node("b", "old")
	b.UID = "u-2"
	for _, obj := range []*corev1.Node{a, b} {
		if err := c.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Add(pod); err != nil {
		t.Fatal(err)
	}
	other := c.WithNodes(func(old *corev1.Node) *corev1.Node {
		if old.Name == "a" {
			return node("a", "new")
		}
		return old
	})
	if got := other.Nodes(); len(got) != 2 || got[0].Labels[corev1.LabelArchStable] != "new" || got[1] != b {
		t.Errorf("nodes of the copy: %v", got)
	}
	if got := c.Nodes(); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("the nodes of the cluster itself changed: %v", got)
	}
	if len(other.Pods()) != 1 || other.Pods()[0] != pod || !other.Has("pods") {
		t.Error("the copy lacks the pods")
	}
}
