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

// maxReplicas bounds the pods of one workload.
const maxReplicas = 100_000

// workload is an object that a controller makes pods of, in a manifest that has not
// met an API server: there are no pods of it yet, and its controller does not run
// here.
type workload struct {
	// empty is an empty object of the kind.
	empty runtime.Object
	// pods returns the field with the number of pods, that number, and what the pods
	// are made of. The object has no pods of its own accord if template is nil.
	pods func(obj runtime.Object) (path *field.Path, replicas int32, template *corev1.PodTemplateSpec)
}

// workloads are the kinds whose pods are known from the manifest alone.
var workloads = map[schema.GroupVersionKind]workload{
	appsv1.SchemeGroupVersion.WithKind("Deployment"): {&appsv1.Deployment{}, func(obj runtime.Object) (*field.Path, int32, *corev1.PodTemplateSpec) {
		o, _ := obj.(*appsv1.Deployment)
		return field.NewPath("spec", "replicas"), ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	}},
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): {&appsv1.StatefulSet{}, func(obj runtime.Object) (*field.Path, int32, *corev1.PodTemplateSpec) {
		o, _ := obj.(*appsv1.StatefulSet)
		return field.NewPath("spec", "replicas"), ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	}},
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): {&appsv1.ReplicaSet{}, func(obj runtime.Object) (*field.Path, int32, *corev1.PodTemplateSpec) {
		o, _ := obj.(*appsv1.ReplicaSet)
		return field.NewPath("spec", "replicas"), ptr.Deref(o.Spec.Replicas, 1), &o.Spec.Template
	}},
	batchv1.SchemeGroupVersion.WithKind("Job"): {&batchv1.Job{}, func(obj runtime.Object) (*field.Path, int32, *corev1.PodTemplateSpec) {
		o, _ := obj.(*batchv1.Job)
		parallelism := ptr.Deref(o.Spec.Parallelism, 1)
		return field.NewPath("spec", "parallelism"), min(parallelism, ptr.Deref(o.Spec.Completions, parallelism)), &o.Spec.Template
	}},
}

// podsOf returns the pods that the workload's controller would make, with the
// workload as their controller. meta is the workload's.
func (w *workload) podsOf(gvk schema.GroupVersionKind, meta metav1.Object, obj runtime.Object) ([]*corev1.Pod, error) {
	path, replicas, template := w.pods(obj)
	if replicas < 0 || replicas > maxReplicas {
		return nil, field.Invalid(path, replicas, fmt.Sprintf("must be 0 to %d", maxReplicas))
	}
	pods := make([]*corev1.Pod, replicas)
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", meta.GetName(), i), meta.GetNamespace()
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(meta, gvk)}
		pods[i] = pod
	}
	return pods, nil
}
