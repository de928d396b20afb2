// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
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

// podKind is the kind of pods.
var podKind, _ = KindOf(&corev1.Pod{})

// maxReplicas bounds the pods of one workload.
const maxReplicas = 100_000

// workload is an object whose controller makes pods. In a manifest that somebody has
// written there are no pods of it yet, and its controller does not run here.
type workload struct {
	gvk      schema.GroupVersionKind
	meta     metav1.Object
	template *corev1.PodTemplateSpec
	// replicas are the pods that it has at a time, and field says so.
	replicas int32
	field    *field.Path
	// claims is whether its pods get volumes of their own.
	claims bool
	place  place
}

// workloadOf returns the workload that an object is, nil if it is none.
func workloadOf(gvk schema.GroupVersionKind, obj runtime.Object) *workload {
	w := &workload{gvk: gvk, field: field.NewPath("spec", "replicas")}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		w.meta, w.template, w.replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		w.meta, w.template, w.replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
		w.claims = len(o.Spec.VolumeClaimTemplates) > 0
	case *appsv1.ReplicaSet:
		w.meta, w.template, w.replicas = o, &o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1)
	case *corev1.ReplicationController:
		w.meta, w.template, w.replicas = o, cmp.Or(o.Spec.Template, &corev1.PodTemplateSpec{}), ptr.Deref(o.Spec.Replicas, 1)
	case *batchv1.Job:
		w.meta = o
		w.runs(&o.Spec, field.NewPath("spec"))
	case *batchv1.CronJob:
		w.meta = o
		w.runs(&o.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
	default:
		return nil
	}
	return w
}

// runs takes the pods that one run of a Job has at a time.
func (w *workload) runs(job *batchv1.JobSpec, path *field.Path) {
	parallelism := ptr.Deref(job.Parallelism, 1)
	w.template, w.field = &job.Template, path.Child("parallelism")
	w.replicas = min(parallelism, ptr.Deref(job.Completions, parallelism))
}

// pods returns the pods that the controller would make, with the workload as their
// controller.
func (w *workload) pods() ([]*corev1.Pod, error) {
	if w.replicas < 0 || w.replicas > maxReplicas {
		return nil, field.Invalid(w.field, w.replicas, fmt.Sprintf("must be 0 to %d", maxReplicas))
	}
	pods := make([]*corev1.Pod, 0, w.replicas)
	for i := range w.replicas {
		pod := &corev1.Pod{ObjectMeta: *w.template.ObjectMeta.DeepCopy(), Spec: *w.template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", w.meta.GetName(), i), w.meta.GetNamespace()
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.meta, w.gvk)}
		pods = append(pods, pod)
	}
	return pods, nil
}

// notes say what of the workload is not as it will be, beside the pods that controllers
// have in the cluster that it is applied to.
func (w *workload) notes(pods map[controller]int) []Note {
	var notes []Note
	name := nameOf(&w.gvk, w.meta)
	if w.claims {
		notes = append(notes, Note{Source: w.place.file, Text: name + ": its pods are placed without the volumes of spec.volumeClaimTemplates"})
	}
	// The pods of a StatefulSet have the names that they have there.
	if count := pods[controller{w.gvk.Kind, w.meta.GetNamespace(), w.meta.GetName()}]; count > 0 && w.gvk.Kind != "StatefulSet" {
		notes = append(notes, Note{Source: w.place.file, Text: fmt.Sprintf("%s is in the cluster already with %d pod(s): those of the file come beside them, as while it is rolled out", name, count)})
	}
	return notes
}
