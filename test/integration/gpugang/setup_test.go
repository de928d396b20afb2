// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpugang shows what pods with GPUs do to each other on a real API server:
// gangs that get all of their devices or none (config/berth-scheduler/gpu-gang.yaml
// as manifests/overlays/gpu-gang installs it), and preemption among shares.
package gpugang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// The shipped profiles, without gangs and with them.
const (
	gpuProfile  = "config/berth-scheduler/gpu.yaml"
	gangProfile = "config/berth-scheduler/gpu-gang.yaml"
)

// gpuNode is a shared node with devices of 80 GiB.
func gpuNode(name string, devices int) corev1.Node {
	return framework.GPUNode(name, "NVIDIA-A100-SXM4-80GB", devices, 81920)
}

func create(t *testing.T, c *framework.Cluster, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		c.CreatePod(t, pod)
	}
}

// remove deletes pods, those of them that were not evicted.
func remove(t *testing.T, c *framework.Cluster, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := c.Client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		c.WaitForPodGone(t, pod.Namespace, pod.Name)
	}
}

// get returns the pod as the API server has it now.
func get(t *testing.T, c *framework.Cluster, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// use is what one container of a pod holds of one device.
type use struct {
	pod   string
	milli int64
}

// held returns who holds what of each device, as the records of all bound pods say.
func held(t *testing.T, c *framework.Cluster) map[string][]use {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devices := map[string][]use{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		records, err := device.ParseRecords(pod.Annotations[names.GPUAssignedAnnotation])
		if err != nil {
			t.Fatalf("the record of pod %s: %v", pod.Name, err)
		}
		for _, record := range records {
			for index := range record.Devices.All() {
				key := fmt.Sprintf("%s/%d", pod.Spec.NodeName, index)
				devices[key] = append(devices[key], use{pod.Name, record.Share.Milli})
			}
		}
	}
	return devices
}
