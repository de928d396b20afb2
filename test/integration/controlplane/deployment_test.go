// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane tests berth-local and the package behind it on real
// processes.
package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// deployment is a Deployment of n replicas in namespace shop, whose pods ask for
// a long graceful period, as servers do.
func deployment(n int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 120
      containers:
      - {name: web, image: registry.k8s.io/pause, resources: {requests: {cpu: 100m}}}
`, n)
}

// podsOf returns the pods of namespace shop, and how many of them are running.
func podsOf(t *testing.T, c *framework.Cluster) (pods []corev1.Pod, running int, err error) {
	t.Helper()
	list, err := c.Client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return list.Items, running, nil
}

func waitForPods(t *testing.T, c *framework.Cluster, total, running int) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%d pods, %d of them running", total, running), func() (bool, error) {
		pods, n, err := podsOf(t, c)
		if err != nil {
			return false, err
		}
		return len(pods) == total && n == running, fmt.Errorf("there are %d pods, %d of them running", len(pods), n)
	})
}

func TestDeploymentLifecycle(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 3})
	c.Kubectl(t, "create", "namespace", "shop")

	c.Apply(t, deployment(4))
	waitForPods(t, c, 4, 0) // made by the controllers, and nobody binds them

	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	waitForPods(t, c, 4, 4)
	c.Kubectl(t, "rollout", "status", "--namespace=shop", "--timeout=60s", "deployment/web")

	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 2)

	// Without --wait=false: kubectl returns when the objects are gone.
	c.Kubectl(t, "delete", "--namespace=shop", "deployment/web")
	waitForPods(t, c, 0, 0)

	// A namespace goes with everything in it.
	c.Apply(t, deployment(2))
	waitForPods(t, c, 2, 2)
	c.Kubectl(t, "delete", "namespace", "shop", "--timeout=60s")
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting the deleted namespace: want NotFound, got %v", err)
	}
}
