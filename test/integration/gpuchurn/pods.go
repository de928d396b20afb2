// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpuchurn is what tests that break things do beside: pods with shares of
// devices that arrive and leave, and the questions whether what became of them is
// settled, and right.
package gpuchurn

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	// Profile is the shipped profile that the pods are for.
	Profile = "config/berth-scheduler/gpu.yaml"
	// Namespace is where the pods are.
	Namespace = metav1.NamespaceDefault
)

// Nodes are n nodes with some devices of 40 GiB each, of two models.
func Nodes(n, devices int) []corev1.Node {
	nodes := make([]corev1.Node, 0, n)
	for i := range n {
		model := []string{"NVIDIA-A100", "NVIDIA-L4"}[i%2]
		nodes = append(nodes, framework.GPUNode(fmt.Sprintf("gpu-%d", i), model, devices, 40960))
	}
	return nodes
}

// Container asks for thousandths and memory; "" does not ask.
func Container(name, milli, memory string) corev1.Container {
	limits := corev1.ResourceList{}
	if milli != "" {
		limits[names.GPUMilliResource] = resource.MustParse(milli)
	}
	if memory != "" {
		limits[names.GPUMemoryResource] = resource.MustParse(memory)
	}
	return corev1.Container{Name: name, Image: "registry.example.com/app", Resources: corev1.ResourceRequirements{Limits: limits}}
}

// Pod is a pod for the shipped profile. kwok leaves it alone: it deletes what it
// has once seen going by name, and here another pod may have that name by then.
func Pod(name string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: Namespace,
			Annotations: map[string]string{localcluster.CustomStatusAnnotation: localcluster.CustomStatus},
		},
		Spec: corev1.PodSpec{SchedulerName: names.Scheduler, Containers: containers},
	}
}

// SharePod asks for thousandths of a device, in one container named main.
func SharePod(name, milli string) *corev1.Pod { return Pod(name, Container("main", milli, "")) }

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// RandomPod draws one of the shapes that pods come in.
func RandomPod(rng *rand.Rand, name string) *corev1.Pod {
	milli := func() string { return strconv.Itoa(50 * (1 + rng.IntN(19))) }
	switch rng.IntN(10) {
	case 0:
		return SharePod(name, "1000")
	case 1:
		return SharePod(name, "2000")
	case 2:
		return Pod(name, Container("main", "", fmt.Sprintf("%dGi", 1+rng.IntN(40))))
	case 3:
		return Pod(name, Container("main", milli(), fmt.Sprintf("%dGi", 1+rng.IntN(30))))
	case 4:
		return Pod(name, Container("one", milli(), ""), Container("two", milli(), ""))
	case 5:
		pod := SharePod(name, milli())
		pod.Spec.InitContainers = []corev1.Container{Container("init", milli(), ""), sidecar(Container("beside", "100", ""))}
		return pod
	default:
		return SharePod(name, milli())
	}
}
