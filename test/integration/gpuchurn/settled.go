// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchurn

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// Check reads nodes and pods and has the oracle check them; rivals are as [oracle.CheckDevices]
// has them.
func Check(ctx context.Context, c *framework.Cluster, rivals ...string) (*oracle.Devices, []corev1.Pod, error) {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	pods, err := c.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	return oracle.CheckDevices(nodes.Items, pods.Items, rivals...), pods.Items, nil
}

// WaitSettled waits until every pod that is there and not terminated has a node,
// or a reason and no node with room, and n of them have a node; n below 0 leaves
// that open. It returns what was checked last.
func WaitSettled(t *testing.T, c *framework.Cluster, n int, rivals ...string) (*oracle.Devices, []corev1.Pod) {
	t.Helper()
	r := &oracle.Devices{}
	var pods []corev1.Pod
	framework.WaitForCondition(t, 3*framework.WaitTimeout, "every pod to have a node or a reason", func() (bool, error) {
		var err error
		if r, pods, err = Check(t.Context(), c, rivals...); err != nil {
			return false, err
		}
		for i := range pods {
			if pods[i].DeletionTimestamp != nil {
				return false, fmt.Errorf("pod %s is being deleted", pods[i].Name)
			}
		}
		waiting := r.Violations.Of(oracle.Silent, oracle.Stranded)
		return len(waiting) == 0 && (n < 0 || r.Bound == n), fmt.Errorf("%d pods are bound and %d pending, %s", r.Bound, r.Pending, waiting)
	})
	return r, pods
}

// RequireView waits until the scheduler counts as the API does. A moment passes
// until its informer has delivered the last binding.
func RequireView(t *testing.T, c *framework.Cluster, s *framework.Scheduler, profile string, rivals ...string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler's view to equal the API's", func() (bool, error) {
		r, _, err := Check(t.Context(), c, rivals...)
		if err != nil {
			return false, err
		}
		violations := oracle.CheckMetrics(s.Metrics(t), profile, r)
		return len(violations) == 0, fmt.Errorf("%s", violations)
	})
}
