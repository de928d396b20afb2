// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

const (
	// attemptTimeout bounds one check of a condition.
	attemptTimeout = 10 * time.Second
	// perNodeInterval is added to the poll interval for each node that is waited for: a
	// list of thousands of nodes is work that would keep the same nodes from getting ready.
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
	return c.wait(ctx, string(component), process.PollInterval, func(ctx context.Context) error {
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
	interval := process.PollInterval + time.Duration(waiting.Len())*perNodeInterval
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

// wait polls until check returns nil. A component that ends without being asked to
// ends the wait too: nothing becomes ready without the rest.
func (c *Cluster) wait(ctx context.Context, what string, interval time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		// A request that hangs must not hide the end of its server.
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		err := check(attempt)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		if err == nil {
			return true, nil
		}
		return false, c.failure()
	})
	switch {
	case err == nil || !wait.Interrupted(err):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s not ready after %v (--start-timeout): %w; logs are in %s", what, c.options.StartTimeout, last, c.folder.path("logs"))
	}
	return fmt.Errorf("stopped while waiting for %s: %w", what, ctx.Err())
}
