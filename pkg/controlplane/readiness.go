// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// pollInterval is how often a condition of the start is looked at.
	pollInterval = 50 * time.Millisecond
	// attemptTimeout bounds one look.
	attemptTimeout = 10 * time.Second
	// perNodeInterval is added to it for each node that is waited for: a list of
	// thousands of nodes is work that would keep the same nodes from getting ready.
	perNodeInterval = time.Millisecond / 2
)

// readinessFiles are the files by which a component shows that it is ready.
func (c *Cluster) readinessFiles(component Component) []string {
	switch component {
	case Etcd:
		return []string{c.folder.etcd(clientSocket)}
	case Kwok:
		return []string{c.folder.kwokReady()}
	default:
		return nil
	}
}

// waitReady waits until a component does its work, or dies, or ctx ends.
func (c *Cluster) waitReady(ctx context.Context, component Component) error {
	return c.wait(ctx, string(component), pollInterval, func(ctx context.Context) error {
		switch component {
		case APIServer:
			// Ready includes the RBAC bootstrap: it is a post-start hook.
			_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err
		case ControllerManager:
			// Its service account controller makes this one, and pods need it.
			_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		default:
			for _, file := range c.readinessFiles(component) {
				if _, err := os.Stat(file); err != nil {
					return err
				}
			}
			return nil
		}
	})
}

// waitNodes waits until every node asked for can take pods.
func (c *Cluster) waitNodes(ctx context.Context) error {
	waiting := sets.New[string]()
	for i := range c.options.Nodes {
		if !hasCustomStatus(&c.options.Nodes[i]) {
			waiting.Insert(c.options.Nodes[i].Name)
		}
	}
	if waiting.Len() == 0 {
		return nil
	}
	interval := pollInterval + time.Duration(waiting.Len())*perNodeInterval
	return c.wait(ctx, "nodes", interval, func(ctx context.Context) error {
		// From the watch cache: with thousands of nodes etcd need not be asked again and again.
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			// A node that was there before may be of custom status by now.
			if node := &list.Items[i]; NodeUsable(node) || hasCustomStatus(node) {
				waiting.Delete(node.Name)
			}
		}
		if waiting.Len() > 0 {
			return fmt.Errorf("%d of %d nodes are not ready, among them %s", waiting.Len(), len(c.options.Nodes), sets.List(waiting)[0])
		}
		return nil
	})
}

// NodeUsable reports whether a node is ready and has lost the taint that it carries
// until the controller-manager has seen that.
func NodeUsable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wait polls until check returns nil. The death of any component that was not
// asked to end, ends it too: nothing becomes ready without the rest.
func (c *Cluster) wait(ctx context.Context, what string, interval time.Duration, check func(context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		// A request that hangs must not hide the death of its server.
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if failure := c.takeFailure(); failure != nil {
			return failure
		}
		select {
		case <-ctx.Done():
			return c.gaveUp(ctx, what, last)
		case <-ticker.C:
		}
	}
}

// gaveUp words the end of a wait: how long, for what, and what was missing.
func (c *Cluster) gaveUp(ctx context.Context, what string, last error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s not ready after %v (--start-timeout): %w; logs are in %s", what, c.options.StartTimeout, last, c.folder.path("logs"))
	}
	return fmt.Errorf("stopped while waiting for %s: %w", what, ctx.Err())
}
