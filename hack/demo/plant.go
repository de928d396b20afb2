// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// plantedPod is the pod without the rule's label that DEMO_BREAK plants,
// plantedShares are the two that hold more of a device than it has.
const plantedPod = "planted"

var plantedShares = []string{"planted-1", "planted-2"}

// plantedMilli is what each of plantedShares says that it holds.
const plantedMilli = 600

// image is what the planted pods would run if anything did.
const image = "registry.k8s.io/pause:3.10"

// plant creates a pod of berth-scheduler that has its node from the start: one
// without the label that berth-scheduler's rule requires.
func (d *demo) plant(ctx context.Context) error {
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "!" + ruleLabel})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	free := slices.IndexFunc(nodes.Items, func(node corev1.Node) bool { return len(node.Spec.Taints) == 0 })
	if free < 0 {
		return fmt.Errorf("DEMO_BREAK: every node carries label %q or a taint, so there is none to break the rule with", ruleLabel)
	}
	node := nodes.Items[free].Name
	d.step("DEMO_BREAK: planting pod %s/%s of %s on node %s, which lacks label %q", policyNamespace, plantedPod, names.Scheduler, node, ruleLabel)
	return d.create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: policyNamespace, Name: plantedPod},
		Spec: corev1.PodSpec{
			SchedulerName: names.Scheduler,
			NodeName:      node,
			Containers:    []corev1.Container{{Name: "main", Image: image}},
		},
	})
}

// plantShares creates two pods that have their node from the start, with records
// that give both of them more than half of its first device.
func (d *demo) plantShares(ctx context.Context) error {
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: names.GPUSharingLabel + "=true"})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("DEMO_BREAK: no node has label %q, so there is no device to give away twice", names.GPUSharingLabel)
	}
	node := &nodes.Items[0]
	memory, err := strconv.Atoi(node.Labels[memoryLabel])
	if err != nil {
		return fmt.Errorf("DEMO_BREAK: node %s: label %s: %w", node.Name, memoryLabel, err)
	}
	d.step("DEMO_BREAK: planting two pods in namespace %s that both hold %dm of device 0 of node %s", gpuNamespace, plantedMilli, node.Name)
	for _, name := range plantedShares {
		err := d.create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: gpuNamespace, Name: name, Annotations: map[string]string{
				names.GPUAssignedAnnotation:               fmt.Sprintf("main=0:%dm:%dMi", plantedMilli, memory*plantedMilli/1000),
				names.GPUDevicesAnnotationPrefix + "main": "0",
			}},
			Spec: corev1.PodSpec{
				SchedulerName: names.Scheduler,
				NodeName:      node.Name,
				Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "main", Image: image, Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{names.GPUMilliResource: *resource.NewQuantity(plantedMilli, resource.DecimalSI)},
				}}},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates a planted pod.
func (d *demo) create(ctx context.Context, pod *corev1.Pod) error {
	if _, err := d.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("planting a pod: %w", err)
	}
	return nil
}
