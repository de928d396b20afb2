// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
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
// long as the test. install sets up what is the same for all subtests.
func NewShared(t *testing.T, options Options, install func(c *Cluster)) *Shared {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane: skipped under -short")
	}
	return &Shared{parent: t, options: options, install: install}
}

// Use returns the control plane with these nodes, ready, and without the DaemonSets, pods,
// events and leases of Berth that subtests before have left. What else they change they have to
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
		c.WaitForNode(t, &nodes[i])
	}
	return c
}

// AddNode creates a node, of which there may have been one before, and returns when it can
// take pods.
func (c *Cluster) AddNode(tb testing.TB, node corev1.Node) {
	tb.Helper()
	c.CreateNode(tb, node)
	c.WaitForNode(tb, &node)
}

// nodePatience is how long kwok takes to make a node ready on a busy machine. If the lease
// of a former node of the name is collected at the wrong moment, it takes until it tries
// the lease again, more than a minute.
const nodePatience = 10 * time.Second

// WaitForNode waits until a node can take pods, unless it is to be left as it is. One that
// kwok does not take up is created anew.
func (c *Cluster) WaitForNode(tb testing.TB, node *corev1.Node) {
	tb.Helper()
	if node.Annotations[localcluster.CustomStatusAnnotation] == localcluster.CustomStatus {
		return
	}
	nodes := c.Client.CoreV1().Nodes()
	anew := time.Now().Add(nodePatience)
	WaitForCondition(tb, WaitTimeout, "node "+node.Name+" to be ready", func() (bool, error) {
		got, err := nodes.Get(tb.Context(), node.Name, metav1.GetOptions{})
		if err != nil || localcluster.NodeUsable(got) {
			return err == nil, err
		}
		if time.Now().After(anew) {
			anew = time.Now().Add(nodePatience)
			if err := nodes.Delete(tb.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
				return false, err
			}
			_, err = nodes.Create(tb.Context(), node, metav1.CreateOptions{})
		}
		return false, err
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
		// What makes pods goes first; Berth's Deployments make new ones.
		if err := c.Client.AppsV1().DaemonSets(namespace).DeleteCollection(ctx, now, all); err != nil {
			t.Fatal(err)
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
	// Else they are collected while kwok renews them for new nodes of the same names.
	leases := c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, now, all); err != nil {
		t.Fatal(err)
	}
	WaitForCondition(t, WaitTimeout, "the leases of their nodes to be gone", func() (bool, error) {
		list, err := leases.List(ctx, all)
		return err == nil && len(list.Items) == 0, err
	})
}
