// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpuchaos breaks what GPUDevice relies on, on a real API server: it
// kills schedulers and API servers, loses answers, lets schedulers race, and then
// has test/oracle say from the API alone whether a device was allocated more than
// once.
//
// The tests run small; make test-long runs them at full size.
package gpuchaos

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/controlplane"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/oracle"
)

const (
	// gpuProfile is the shipped profile.
	gpuProfile = "config/berth-scheduler/gpu.yaml"
	namespace  = metav1.NamespaceDefault
)

// sharedNodes are n nodes with some devices of 40 GiB each, of two models.
func sharedNodes(n, devices int) []corev1.Node {
	nodes := make([]corev1.Node, 0, n)
	for i := range n {
		model := []string{"NVIDIA-A100", "NVIDIA-L4"}[i%2]
		nodes = append(nodes, framework.GPUNode(fmt.Sprintf("gpu-%d", i), model, devices, 40960))
	}
	return nodes
}

// startPool starts a control plane with such nodes, and installs what the scheduler needs.
func startPool(t *testing.T, nodes, devices int) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{Nodes: sharedNodes(nodes, devices)})
	c.ApplyManifests(t, "manifests/base")
	return c
}

// container asks for thousandths and memory; "" does not ask.
func container(name, milli, memory string) corev1.Container {
	limits := corev1.ResourceList{}
	if milli != "" {
		limits[names.GPUMilliResource] = resource.MustParse(milli)
	}
	if memory != "" {
		limits[names.GPUMemoryResource] = resource.MustParse(memory)
	}
	return corev1.Container{Name: name, Image: "registry.example.com/app", Resources: corev1.ResourceRequirements{Limits: limits}}
}

// podOf is a pod for the shipped profile. kwok leaves it alone: it deletes what it
// has once seen going by name, and here another pod may have that name by then.
func podOf(name string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Annotations: map[string]string{controlplane.CustomStatusAnnotation: controlplane.CustomStatus},
		},
		Spec: corev1.PodSpec{SchedulerName: names.Scheduler, Containers: containers},
	}
}

// sharePod asks for thousandths of a device, in one container named main.
func sharePod(name, milli string) *corev1.Pod { return podOf(name, container("main", milli, "")) }

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// forceDelete removes a pod at once.
func forceDelete(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
}

// check reads nodes and pods and has the oracle check them.
func check(ctx context.Context, c *framework.Cluster) (*oracle.Devices, []corev1.Pod, error) {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	return oracle.CheckDevices(nodes.Items, pods.Items), pods.Items, nil
}

// waitSettled waits until every pod that is there and not terminated has a node,
// or a reason and no node with room, and n of them have a node; n below 0 leaves
// that open. It returns what was checked last.
func waitSettled(t *testing.T, c *framework.Cluster, n int) (*oracle.Devices, []corev1.Pod) {
	t.Helper()
	r := &oracle.Devices{}
	var pods []corev1.Pod
	framework.WaitForCondition(t, 3*framework.WaitTimeout, "every pod to have a node or a reason", func() (bool, error) {
		var err error
		if r, pods, err = check(t.Context(), c); err != nil {
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

// requireRight waits until n pods are bound and the others wait for a reason, and fails
// if anything is wrong, or if the scheduler counts otherwise than the API does.
func requireRight(t *testing.T, c *framework.Cluster, s *framework.Scheduler, n int) {
	t.Helper()
	if r, _ := waitSettled(t, c, n); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	requireView(t, c, s, names.Scheduler)
}

// requireView waits until the scheduler counts as the API does. A moment passes
// until its informer has delivered the last binding.
func requireView(t *testing.T, c *framework.Cluster, s *framework.Scheduler, profile string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler's view to equal the API's", func() (bool, error) {
		r, _, err := check(t.Context(), c)
		if err != nil {
			return false, err
		}
		violations := oracle.CheckMetrics(s.Metrics(t), profile, r)
		return len(violations) == 0, fmt.Errorf("%s", violations)
	})
}

// requireMetric waits until a counter has reached a value.
func requireMetric(t *testing.T, s *framework.Scheduler, name string, least float64) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%s to reach %v", name, least), func() (bool, error) {
		got := metric(t, s, name)
		return got >= least, fmt.Errorf("it is %v", got)
	})
}

func metric(t *testing.T, s *framework.Scheduler, name string) float64 {
	t.Helper()
	values, err := oracle.Metric(s.Metrics(t), name, "profile")
	if err != nil {
		t.Fatal(err)
	}
	return values[""]
}

// warned returns the events of a reason, by the name of the pod that they are on.
func warned(t *testing.T, c *framework.Cluster, reason string) map[string][]string {
	t.Helper()
	events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string][]string{}
	for i := range events.Items {
		name := events.Items[i].InvolvedObject.Name
		notes[name] = append(notes[name], events.Items[i].Message)
	}
	return notes
}

// requireWarned waits until each of the pods has an event of the reason that
// contains text.
func requireWarned(t *testing.T, c *framework.Cluster, reason, text string, pods ...string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("events %s on %d pods", reason, len(pods)), func() (bool, error) {
		notes := warned(t, c, reason)
		for _, pod := range pods {
			if !strings.Contains(strings.Join(notes[pod], "\n"), text) {
				return false, fmt.Errorf("pod %s has the events %q", pod, notes[pod])
			}
		}
		return true, nil
	})
}
