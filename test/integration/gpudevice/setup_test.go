// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpudevice shows what the plugin of that name does on a real API server,
// in a berth-scheduler process with the shipped profile and roles. Devices exist
// as labels of nodes alone: what a container sees of them, only a real node shows.
package gpudevice

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/controlplane"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// gpuProfile is the shipped profile.
const gpuProfile = "config/berth-scheduler/gpu.yaml"

// gpuNode is a shared node as GPU feature discovery labels it.
func gpuNode(name, model string, devices int, memoryMiB int64) corev1.Node {
	n := controlplane.FakeNodes(1)[0]
	n.Name = name
	maps.Copy(n.Labels, map[string]string{
		corev1.LabelHostname:     name,
		names.GPUSharingLabel:    "true",
		"nvidia.com/gpu.count":   strconv.Itoa(devices),
		"nvidia.com/gpu.memory":  strconv.FormatInt(memoryMiB, 10),
		"nvidia.com/gpu.product": model,
	})
	return n
}

// sharePod asks for thousandths of a device, in one container named main.
func sharePod(name, milli string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/app",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					names.GPUMilliResource: resource.MustParse(milli),
				}},
			}},
		},
	}
}

func create(t *testing.T, c *framework.Cluster, pod *corev1.Pod) {
	t.Helper()
	if _, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// place creates the pod and returns where its container main went, as node/devices.
func place(t *testing.T, c *framework.Cluster, pod *corev1.Pod) string {
	t.Helper()
	create(t, c, pod)
	return placement(c.WaitForPodScheduled(t, pod.Namespace, pod.Name))
}

func placement(pod *corev1.Pod) string {
	return pod.Spec.NodeName + "/" + pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"]
}

// expectEvent waits for a FailedScheduling event on the pod that contains want.
func expectEvent(t *testing.T, c *framework.Cluster, pod, want string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("the event on %s to contain %q", pod, want), func() (bool, error) {
		events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + pod + ",reason=FailedScheduling",
		})
		if err != nil {
			return false, err
		}
		var seen []string
		for i := range events.Items {
			if strings.Contains(events.Items[i].Message, want) {
				return true, nil
			}
			seen = append(seen, events.Items[i].Message)
		}
		return false, fmt.Errorf("the events are %q", seen)
	})
}

// writes returns what the scheduler wrote to pods of the default namespace, as
// "verb resource/subresource" by the name of the pod.
func writes(t *testing.T, c *framework.Cluster) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(c.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:serviceaccount:" + names.Namespace + ":" + names.Scheduler
	got := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("reading the audit log: %v", err)
		}
		ref := event.ObjectRef
		if event.User.Username != user || ref == nil || ref.Resource != "pods" || ref.Namespace != metav1.NamespaceDefault {
			continue
		}
		switch event.Verb {
		case "get", "list", "watch":
			continue
		}
		got[ref.Name] = append(got[ref.Name], event.Verb+" "+ref.Resource+"/"+ref.Subresource)
	}
	return got
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
