// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func writeTestFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadNodesFileErrors(t *testing.T) {
	const good = "apiVersion: v1\nkind: Node\nmetadata: {name: good}\n"
	for _, tt := range []struct {
		name    string
		content string
		want    []string
	}{
		{name: "empty", content: "", want: []string{"holds no"}},
		{name: "an empty list", content: "apiVersion: v1\nkind: List\nitems: []\n", want: []string{"holds no Node"}},
		{name: "broken YAML", content: good + "---\nkind: [", want: []string{"nodes.yaml: document 2"}},
		{name: "another kind", content: good + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: d}\nspec: {containers: [{name: c}]}\n", want: []string{"holds 1 object(s) that are not Nodes"}},
		{name: "an unknown kind", content: good + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: p, namespace: d}\n", want: []string{"not Nodes: remove them", "Secret"}},
		{name: "a name twice", content: good + "---\n" + good, want: []string{"nodes.yaml: document 2", "good"}},
		{name: "an unknown field", content: "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taint: []}\n", want: []string{"nodes.yaml: document 1", `unknown field "spec.taint"`}},
		{name: "a negative quantity", content: "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: -1}}\n", want: []string{"status.allocatable[cpu]: Invalid value", "must not be negative"}},
		{name: "labels and taints that the API server rejects", content: "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {zone: 'a b'}}\nspec: {taints: [{key: k, effect: Never}]}\n", want: []string{`nodes[0]: metadata.labels: Invalid value: "a b"`, `spec.taints[0].effect: Unsupported value: "Never"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeTestFile(t, tt.content)
			_, err := ReadNodesFile(path)
			if err == nil {
				t.Fatal("want an error, got none")
			}
			for _, want := range append(tt.want, "--nodes "+path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want an error that contains %q, got:\n%v", want, err)
				}
			}
		})
	}
}

func TestReadNodesFile(t *testing.T) {
	// A NodeList, as the API server answers it, and a JSON document of its own.
	path := writeTestFile(t, `# from a cluster
---
apiVersion: v1
kind: NodeList
items:
- metadata:
    name: worker
    uid: 3f0e
    resourceVersion: "77"
    creationTimestamp: "2026-01-02T03:04:05Z"
    labels: {kubernetes.io/hostname: worker.example.com}
    managedFields: [{manager: kubelet, operation: Update}]
  spec: {podCIDR: 10.1.0.0/24, unschedulable: true}
  status:
    capacity: &capacity {cpu: 4, memory: 16Gi}
    allocatable: *capacity
    conditions: [{type: Ready, status: "False"}]
    addresses: [{type: InternalIP, address: 192.0.2.1}]
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other", "annotations": {"kwok.x-k8s.io/status": "custom"}},
 "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
`)
	got, err := ReadNodesFile(path)
	if err != nil {
		t.Fatal(err)
	}
	capacity := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi")}
	want := []corev1.Node{
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "worker",
				Labels:      map[string]string{"kubernetes.io/hostname": "worker.example.com", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Spec:   corev1.NodeSpec{PodCIDR: "10.1.0.0/24", Unschedulable: true},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "other",
				Labels:      map[string]string{"kubernetes.io/hostname": "other", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "kwok.x-k8s.io/status": "custom"},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "Unknown"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want,+got):\n%s", diff)
	}
}
