// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane tests berth-local and the package behind it on real
// processes.
package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
