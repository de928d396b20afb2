// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// setDefaults sets what an API server sets of a pod that somebody has written and that
// decides where it fits: what is requested of a resource that only a limit names.
func setDefaults(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if _, ok := resources.Requests[name]; ok {
					continue
				}
				if resources.Requests == nil {
					resources.Requests = corev1.ResourceList{}
				}
				resources.Requests[name] = limit.DeepCopy()
			}
		}
	}
}

// maxReplicas bounds the pods of one workload.
const maxReplicas = 100_000

// podsOf returns the pods that the controller of a workload would make, with the
// workload as their controller, and whether the object is one: in a manifest that
// somebody has written there are no pods of it yet, and its controller does not run
// here.
func podsOf(gvk schema.GroupVersionKind, obj runtime.Object, written bool) (pods []*corev1.Pod, isWorkload bool, err error) {
	var (
		meta     metav1.Object
		template *corev1.PodTemplateSpec
		replicas int32
		path     = field.NewPath("spec", "replicas")
	)
	switch o := obj.(type) {
	case *appsv1.Deployment:
		meta, template, replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		meta, template, replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		meta, template, replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
	case *batchv1.Job:
		meta, template, replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Parallelism, 1)
		path, replicas = field.NewPath("spec", "parallelism"), min(replicas, ptr.Deref(o.Spec.Completions, replicas))
	default:
		return nil, false, nil
	}
	if !written {
		return nil, true, nil
	}
	if replicas < 0 || replicas > maxReplicas {
		return nil, true, field.Invalid(path, replicas, fmt.Sprintf("must be 0 to %d", maxReplicas))
	}
	for i := range replicas {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", meta.GetName(), i), meta.GetNamespace()
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(meta, gvk)}
		pods = append(pods, pod)
	}
	return pods, true, nil
}
