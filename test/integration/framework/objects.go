// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
)

// Node returns a node as berth-local makes them, with these labels besides.
func Node(name string, labels map[string]string) corev1.Node {
	node := localcluster.FakeNodes(1)[0]
	node.Name = name
	node.Labels[corev1.LabelHostname] = name
	maps.Copy(node.Labels, labels)
	return node
}

// GPUNode returns a node whose devices are shared, as GPU feature discovery labels it.
func GPUNode(name, model string, devices int, memoryMiB int64) corev1.Node {
	return Node(name, map[string]string{
		names.GPUSharingLabel:    "true",
		"nvidia.com/gpu.count":   strconv.Itoa(devices),
		"nvidia.com/gpu.memory":  strconv.FormatInt(memoryMiB, 10),
		"nvidia.com/gpu.product": model,
	})
}

// Pod returns a pod with one container, main, that requests nothing.
func Pod(namespace, name, schedulerName string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers:    []corev1.Container{{Name: "main", Image: "registry.example.com/app"}},
		},
	}
}

// SharePod returns a pod of namespace default for berth-scheduler whose container
// requests thousandths of a device.
func SharePod(name, milli string) *corev1.Pod {
	pod := Pod(metav1.NamespaceDefault, name, names.Scheduler)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse(milli)}
	return pod
}

// Placement returns the pod's node and the devices of its container main, as
// node/devices.
func Placement(pod *corev1.Pod) string {
	return pod.Spec.NodeName + "/" + pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"]
}

// CreateNode creates a node; kwok makes it ready.
func (c *Cluster) CreateNode(tb testing.TB, node corev1.Node) {
	tb.Helper()
	if _, err := c.Client.CoreV1().Nodes().Create(tb.Context(), &node, metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
}

// CreateNamespace creates a namespace and returns when pods can be created in it:
// they are refused until there is the ServiceAccount that they get.
func (c *Cluster) CreateNamespace(tb testing.TB, name string, labels map[string]string) {
	tb.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.Client.CoreV1().Namespaces().Create(tb.Context(), namespace, metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	WaitForCondition(tb, WaitTimeout, "the default ServiceAccount of "+name, func() (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(tb.Context(), "default", metav1.GetOptions{})
		return err == nil, err
	})
}

// CreatePod creates a pod in its namespace and returns it as the API server has it.
func (c *Cluster) CreatePod(tb testing.TB, pod *corev1.Pod) *corev1.Pod {
	tb.Helper()
	created, err := c.Client.CoreV1().Pods(pod.Namespace).Create(tb.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("creating pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return created
}

// PlacePod creates a pod, waits until it has a node, and returns its Placement.
func (c *Cluster) PlacePod(tb testing.TB, pod *corev1.Pod) string {
	tb.Helper()
	c.CreatePod(tb, pod)
	return Placement(c.WaitForPodScheduled(tb, pod.Namespace, pod.Name))
}
