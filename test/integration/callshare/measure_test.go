// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callshare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// shares has what each routing makes of one placement.
type shares map[callgraph.Routing]callgraph.Share

// scene is an application in a contender's namespace.
type scene struct {
	application
	contender contender
	graph     *callgraph.Graph
	pool      pool
	namespace string
}

// newScene creates the namespace and the Services.
func newScene(t *testing.T, c *framework.Cluster, a application, p pool, who contender) *scene {
	t.Helper()
	s := &scene{contender: who, pool: p, namespace: strings.NewReplacer(" ", "", ",", "-").Replace(strings.ToLower(a.name + "-" + p.name + "-" + who.name))}
	s.application, s.graph = a.in(t, s.namespace)
	c.CreateNamespace(t, s.namespace, nil)
	for i := range s.services {
		service := s.services[i].DeepCopy()
		service.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			service.Spec.Type = corev1.ServiceTypeClusterIP // nobody here gives out addresses
		}
		if _, err := c.Client.CoreV1().Services(s.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// place creates the pods of one order, one after the other, and returns them when
// all have a node and are ready.
func (s *scene) place(t *testing.T, c *framework.Cluster, order int) []corev1.Pod {
	t.Helper()
	pods := s.inOrder(order).pods(s.pool)
	for _, pod := range pods {
		deployment := deploymentOf(pod)
		pod.Spec.SchedulerName = s.contender.schedulerName
		s.contender.prepare(pod, targets(t, s.application, s.graph, deployment))
		c.CreatePod(t, pod)
	}
	var placed []corev1.Pod
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%d pods of %s to be ready", len(pods), s.namespace), func() (bool, error) {
		list, err := c.Client.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		waiting := slices.IndexFunc(list.Items, func(pod corev1.Pod) bool {
			return !slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
				return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
			})
		})
		if waiting >= 0 {
			pod := &list.Items[waiting]
			return false, fmt.Errorf("pod %s on node %q: %v", pod.Name, pod.Spec.NodeName, framework.PodScheduledCondition(pod))
		}
		placed = list.Items
		return len(placed) == len(pods), fmt.Errorf("there are %d", len(placed))
	})
	return placed
}

// measure counts the calls of a placement.
func (s *scene) measure(t *testing.T, nodes []corev1.Node, pods []corev1.Pod) shares {
	t.Helper()
	measured := shares{}
	for _, routing := range callgraph.Routings() {
		share, err := s.graph.Share(callgraph.Placement{Pods: pods, Nodes: nodes}, routing)
		if err != nil {
			t.Fatal(err)
		}
		measured[routing] = share
	}
	return measured
}

// clear removes the pods, so that the next contender finds the nodes as this one
// did.
func (s *scene) clear(t *testing.T, c *framework.Cluster) {
	t.Helper()
	err := c.Client.CoreV1().Pods(s.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the pods of "+s.namespace+" to be gone", func() (bool, error) {
		list, err := c.Client.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return len(list.Items) == 0, fmt.Errorf("there are %d", len(list.Items))
	})
}

// zonePrefer and nodePrefer are the parts of the calls that stay within the zone under
// PreferSameZone, and within the node under PreferSameNode.
func zonePrefer(s shares) float64 { return s[callgraph.PreferSameZone].WithinZone }

func nodePrefer(s shares) float64 { return s[callgraph.PreferSameNode].WithinNode }

// results are the shares of each contender, order by order.
type results map[string][]shares

// mean returns the mean over the orders.
func (r results) mean(contender string, of func(shares) float64) float64 {
	sum := 0.0
	for _, s := range r[contender] {
		sum += of(s)
	}
	return sum / float64(len(r[contender]))
}
