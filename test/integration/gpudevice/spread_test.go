// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestPlainPodsSpread has stock and the shipped profile place the pods of Services
// in a cluster with two zones: whoever makes the profile the cluster's scheduler
// loses no spreading of pods that ask for no device. Of ten pods five are in each
// zone, and on no node are two more than on another.
func TestPlainPodsSpread(t *testing.T) {
	var nodes []corev1.Node
	zones := map[string]string{}
	for i, zone := range []string{"a", "a", "b", "b", "a", "b"} {
		node := framework.Node(fmt.Sprintf("plain-%d", i), nil)
		if i >= 4 {
			node = framework.GPUNode(fmt.Sprintf("gpu-%d", i), "NVIDIA-A100", 2, 40960)
		}
		node.Labels[corev1.LabelTopologyZone] = zone
		zones[node.Name] = zone
		nodes = append(nodes, node)
	}
	c := framework.Start(t, framework.Options{Nodes: nodes})
	c.ApplyManifests(t, "manifests/base")
	framework.StartProcess(t, framework.KubeScheduler, "--kubeconfig="+c.StockSchedulerKubeconfig(t), "--secure-port=0")
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})

	tests := []struct {
		schedulerName string
		nodes         int // on which pods without devices go
	}{
		{schedulerName: corev1.DefaultSchedulerName, nodes: 6},
		{schedulerName: names.Scheduler, nodes: 4},
	}
	for _, tt := range tests {
		t.Run(tt.schedulerName, func(t *testing.T) {
			for i := range 2 {
				app := fmt.Sprintf("%s-%d", tt.schedulerName, i)
				byZone, byNode := map[string]int{}, map[string]int{}
				for _, node := range placeService(t, c, app, tt.schedulerName) {
					byZone[zones[node]]++
					byNode[node]++
				}
				if diff := cmp.Diff(map[string]int{"a": 5, "b": 5}, byZone); diff != "" {
					t.Errorf("%s: unexpected pods in zones (-want,+got):\n%s", app, diff)
				}
				fewest, most := len(nodes), 0
				for _, count := range byNode {
					fewest, most = min(fewest, count), max(most, count)
				}
				if len(byNode) != tt.nodes || most-fewest > 1 {
					t.Errorf("%s: pods on nodes %v, want them spread over %d", app, byNode, tt.nodes)
				}
			}
		})
	}
}

// placeService creates a Service and ten pods behind it, and returns their nodes.
func placeService(t *testing.T, c *framework.Cluster, app, schedulerName string) []string {
	t.Helper()
	labels := map[string]string{"app": app}
	_, err := c.Client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const pods = 10
	for i := range pods {
		pod := framework.SharePod(fmt.Sprintf("%s-%d", app, i), "1")
		pod.Labels = labels
		pod.Spec.SchedulerName = schedulerName
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		c.CreatePod(t, pod)
	}
	nodes := make([]string, pods)
	for i := range nodes {
		nodes[i] = c.WaitForPodScheduled(t, metav1.NamespaceDefault, fmt.Sprintf("%s-%d", app, i)).Spec.NodeName
	}
	return nodes
}
