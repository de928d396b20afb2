// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// appLabel is the label that every pod has: its group's or its service's name.
	appLabel = "app"
	// container is the one container of every pod, image what it would run.
	container = "main"
	image     = "registry.example.com/bench"
)

// template is a pod that lacks its name only.
func template(labels, annotations map[string]string, requests, limits corev1.ResourceList) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			// No pod of a benchmark asks the API for anything.
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			Containers: []corev1.Container{{
				Name: container, Image: image,
				Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
			}},
		},
	}
}

// named returns a pod of a template.
func named(template *corev1.PodTemplateSpec, name string) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: *template.ObjectMeta.DeepCopy(),
		Spec:       *template.Spec.DeepCopy(),
	}
	pod.Name = name
	return pod
}

// requests leaves out what is not asked for.
func requests(cpu, memory Quantity) corev1.ResourceList {
	list := corev1.ResourceList{}
	if !cpu.IsZero() {
		list[corev1.ResourceCPU] = cpu.DeepCopy()
	}
	if !memory.IsZero() {
		list[corev1.ResourceMemory] = memory.DeepCopy()
	}
	return list
}

// groupTemplate is the pods of a group.
func (w *writer) groupTemplate(group *PodGroup) corev1.PodTemplateSpec {
	labels := map[string]string{appLabel: group.Name}
	maps.Copy(labels, group.Labels)
	pod := template(labels, nil, requests(group.CPU, group.Memory), nil)
	if group.GPU != nil {
		w.addDevices(&pod, group.GPU)
	}
	return pod
}

// addDevices has a pod ask for devices, in the format.
func (w *writer) addDevices(pod *corev1.PodTemplateSpec, gpu *PodGPU) {
	resources := &pod.Spec.Containers[0].Resources
	ask := func(name corev1.ResourceName, amount resource.Quantity) {
		resources.Limits = corev1.ResourceList{name: amount}
		resources.Requests[name] = amount
	}
	patterns := strings.Join(gpu.Models, ",")
	if w.format == Shares {
		switch {
		case gpu.Milli != 0:
			ask(names.GPUMilliResource, *resource.NewQuantity(gpu.Milli, resource.DecimalSI))
		case gpu.Count != 0:
			ask(names.GPUMilliResource, *resource.NewQuantity(int64(gpu.Count)*device.MilliPerDevice, resource.DecimalSI))
		default:
			ask(names.GPUMemoryResource, gpu.Memory.DeepCopy())
		}
		if len(gpu.Models) > 0 {
			pod.Annotations = map[string]string{names.GPUModelAnnotation: patterns}
		}
		return
	}
	ask(pluginResource(), *resource.NewQuantity(int64(max(1, gpu.Count)), resource.DecimalSI))
	if len(gpu.Models) == 0 {
		return
	}
	// Validation has parsed each pattern.
	models, _ := device.ParseModels(patterns)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: device.DefaultNodeKeys().Product, Operator: corev1.NodeSelectorOpIn, Values: matchingModels(w.spec.Nodes, models),
			}},
		}}},
	}}
}

// asked is what the workload says of a group's pods.
func asked(group *PodGroup) *Group {
	g := &Group{Name: group.Name, RequireNodeLabels: group.RequireNodeLabels, ForbidNodeLabels: group.ForbidNodeLabels}
	switch gpu := group.GPU; {
	case gpu == nil:
	case gpu.Milli != 0:
		g.Devices, g.Milli = 1, gpu.Milli
	case gpu.Count != 0:
		g.Devices, g.Milli = gpu.Count, device.MilliPerDevice
	default:
		g.Devices, g.MemoryMiB = 1, gpu.Memory.Value()>>20
	}
	return g
}

// counts is how many pods each group of spec.pods has: its count, or its part by
// weight of what is left of totalPods. What does not divide goes to those with the
// largest remainders, the first of equals.
func counts(spec *Spec) []int {
	result := make([]int, len(spec.Pods))
	left, weights := spec.TotalPods, 0
	for i := range spec.Pods {
		result[i] = spec.Pods[i].Count
		left -= spec.Pods[i].Count
		weights += spec.Pods[i].Weight
	}
	if weights == 0 {
		return result
	}
	given := 0
	remainders := make([]int, len(spec.Pods))
	for i := range spec.Pods {
		if weight := spec.Pods[i].Weight; weight > 0 {
			result[i] = left * weight / weights
			remainders[i] = left * weight % weights
			given += result[i]
		}
	}
	for range left - given {
		largest := 0
		for i := range remainders {
			if remainders[i] > remainders[largest] {
				largest = i
			}
		}
		result[largest]++
		remainders[largest] = 0
	}
	return result
}

// podName is the name of the n-th pod of a group or a service.
func podName(base string, n int) string { return fmt.Sprintf("%s-%d", base, n) }
