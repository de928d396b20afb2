// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestReplicasSpread lets the cluster's own scheduler place the two replicas on
// two nodes: one each, also after a rollout, which needs room beside the old
// ones; and a drain takes one of them at a time.
func TestReplicasSpread(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{node("one", "4"), node("two", "4")}})
	framework.StartProcess(t, framework.KubeScheduler, "--kubeconfig="+c.StockSchedulerKubeconfig(t), "--secure-port=0")
	install.Apply(t, c, "overlays/ha")
	before := waitForReplicas(t, c)

	c.Kubectl(t, "rollout", "restart", "deployment", "-n", names.Namespace, names.Scheduler)
	c.Kubectl(t, "rollout", "status", "deployment", "-n", names.Namespace, names.Scheduler, "--timeout="+framework.WaitTimeout.String())
	if after := waitForReplicas(t, c); after.HasAny(before.UnsortedList()...) {
		t.Errorf("after the rollout, pods of before are left: %v and %v", before.UnsortedList(), after.UnsortedList())
	}

	framework.WaitForCondition(t, framework.WaitTimeout, "the disruption budget", func() (bool, error) {
		budget, err := c.Client.PolicyV1().PodDisruptionBudgets(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		return err == nil && budget.Status.CurrentHealthy == 2 && budget.Status.DisruptionsAllowed == 1, err
	})
	// With no scheduler to place a replacement, the first eviction uses the budget up.
	c.Kubectl(t, "cordon", "one", "two")
	var refused int
	for name := range waitForReplicas(t, c) {
		err := c.Client.PolicyV1().Evictions(names.Namespace).Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: names.Namespace, Name: name},
		})
		if err != nil {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("of two evictions %d were refused, want 1", refused)
	}
}

// waitForReplicas waits until the two replicas of the newest revision are the
// only ones, and run on different nodes; it returns their names.
func waitForReplicas(t *testing.T, c *framework.Cluster) sets.Set[string] {
	t.Helper()
	var found sets.Set[string]
	framework.WaitForCondition(t, framework.WaitTimeout, "two replicas on two nodes", func() (bool, error) {
		deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if !settled(deployment) {
			return false, fmt.Errorf("status %+v", deployment.Status)
		}
		pods, err := c.Client.CoreV1().Pods(names.Namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector),
		})
		if err != nil {
			return false, err
		}
		found = sets.New[string]()
		nodes := sets.New[string]()
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil {
				found.Insert(pod.Name)
				nodes.Insert(pod.Spec.NodeName)
			}
		}
		return len(found) == 2 && len(nodes) == 2, fmt.Errorf("pods %v on %v", found.UnsortedList(), nodes.UnsortedList())
	})
	return found
}

// settled reports whether the controller has nothing left to do.
func settled(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 2 &&
		d.Status.ReadyReplicas == 2 && d.Status.Replicas == 2
}
