// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/controlplane"
)

// Shared is a control plane that the subtests of a test use one after the other: starting
// one takes longer than many tests do. After a subtest that failed there is a new one.
type Shared struct {
	parent  *testing.T
	options Options
	install func(c *Cluster)
	cluster *Cluster
}

// NewShared returns a control plane with these options, but for its nodes, which lives as
// long as parent does. install sets up what is the same for all subtests.
func NewShared(parent *testing.T, options Options, install func(c *Cluster)) *Shared {
	parent.Helper()
	if testing.Short() {
		parent.Skip("starts a control plane: skipped under -short")
	}
	return &Shared{parent: parent, options: options, install: install}
}

// Use returns the control plane with these nodes, ready, and without the pods, events and
// leases of Berth that subtests before have left. What else they change they have to
// take back.
func (s *Shared) Use(t *testing.T, nodes []corev1.Node) *Cluster {
	t.Helper()
	if s.cluster == nil {
		s.cluster = Start(s.parent, s.options)
		s.install(s.cluster)
	} else {
		s.cluster.clear(t)
	}
	c := s.cluster
	t.Cleanup(func() {
		if t.Failed() {
			s.cluster = nil
		}
	})
	for i := range nodes {
		c.CreateNode(t, nodes[i])
	}
	for i := range nodes {
		if nodes[i].Annotations[controlplane.CustomStatusAnnotation] != controlplane.CustomStatus {
			c.waitForNode(t, nodes[i].Name)
		}
	}
	return c
}

// waitForNode waits until a node can take pods.
func (c *Cluster) waitForNode(tb testing.TB, name string) {
	tb.Helper()
	WaitForCondition(tb, WaitTimeout, "node "+name+" to be ready", func() (bool, error) {
		node, err := c.Client.CoreV1().Nodes().Get(tb.Context(), name, metav1.GetOptions{})
		return err == nil && controlplane.NodeUsable(node), err
	})
}

// clear takes away what the subtests before have left.
func (c *Cluster) clear(t *testing.T) {
	t.Helper()
	ctx, all := t.Context(), metav1.ListOptions{}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	core := c.Client.CoreV1()
	for i := range namespaces.Items {
		namespace := namespaces.Items[i].Name
		if err := core.Events(namespace).DeleteCollection(ctx, now, all); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(namespace, "kube-") || namespace == names.Namespace {
			continue
		}
		if err := core.Pods(namespace).DeleteCollection(ctx, now, all); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Client.CoordinationV1().Leases(names.Namespace).DeleteCollection(ctx, now, all); err != nil {
		t.Fatal(err)
	}
	if err := core.Nodes().DeleteCollection(ctx, now, all); err != nil {
		t.Fatal(err)
	}
	WaitForCondition(t, WaitTimeout, "the pods and nodes of other tests to be gone", func() (bool, error) {
		pods, err := core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
		if err != nil || len(pods.Items) > 0 {
			return false, fmt.Errorf("%d pods have a node: %w", len(pods.Items), err)
		}
		nodes, err := core.Nodes().List(ctx, all)
		return err == nil && len(nodes.Items) == 0, err
	})
}
