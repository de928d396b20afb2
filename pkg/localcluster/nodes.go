// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
)

const (
	// CustomStatusAnnotation is the annotation that, with the value CustomStatus,
	// makes kwok leave the status of a Node or Pod alone: such a node can be made
	// not ready.
	CustomStatusAnnotation = "kwok.x-k8s.io/status"
	// CustomStatus is the value of CustomStatusAnnotation that has this meaning.
	CustomStatus = "custom"

	// fakeNodeAnnotation marks a node that has no machine. kwok's documentation
	// asks for it; here kwok manages nodes without it just the same.
	fakeNodeAnnotation = "kwok.x-k8s.io/node"
	// createWorkers is how many nodes are created at a time.
	createWorkers = 16
)

// FakeNodes returns n nodes, node-0 and so on, each with 32 CPUs, 128Gi of memory
// and room for 110 pods, in the zones a, b and c by turns. n below 0 counts as 0.
func FakeNodes(n int) []corev1.Node {
	zones := []string{"a", "b", "c"}
	nodes := make([]corev1.Node, 0, max(n, 0))
	for i := range n {
		node := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("node-%d", i),
				Labels: map[string]string{corev1.LabelTopologyZone: zones[i%len(zones)]},
			},
			Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("32"),
				corev1.ResourceMemory: resource.MustParse("128Gi"),
				corev1.ResourcePods:   resource.MustParse("110"),
			}},
		}
		completeNode(&node)
		nodes = append(nodes, node)
	}
	return nodes
}

// completeNode adds what a kubelet sets when it registers its node, where it is
// missing: the usual labels, and allocatable resources as large as the capacity.
func completeNode(node *corev1.Node) {
	setDefault(&node.Annotations, fakeNodeAnnotation, "fake")
	setDefault(&node.Labels, corev1.LabelHostname, node.Name)
	setDefault(&node.Labels, corev1.LabelOSStable, "linux")
	setDefault(&node.Labels, corev1.LabelArchStable, "amd64")
	// The controller-manager copies these two if they are missing: a write a node.
	setDefault(&node.Labels, "beta.kubernetes.io/os", node.Labels[corev1.LabelOSStable])
	setDefault(&node.Labels, "beta.kubernetes.io/arch", node.Labels[corev1.LabelArchStable])
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
}

func setDefault(values *map[string]string, key, value string) {
	if *values == nil {
		*values = map[string]string{}
	}
	if _, ok := (*values)[key]; !ok {
		(*values)[key] = value
	}
}

func hasCustomStatus(node *corev1.Node) bool {
	return node.Annotations[CustomStatusAnnotation] == CustomStatus
}

// createNodes creates the nodes that do not exist yet. It leaves those alone that
// do: in a kept folder they carry what happened to them since.
func createNodes(ctx context.Context, client kubernetes.Interface, nodes []corev1.Node) error {
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, createWorkers, len(nodes), func(i int) {
		_, err := client.CoreV1().Nodes().Create(ctx, &nodes[i], metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, fmt.Errorf("creating node %s: %w", nodes[i].Name, err))
	})
	return errors.Join(errs...)
}
