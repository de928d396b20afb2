// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	resourcev1defaults "k8s.io/kubernetes/pkg/apis/resource/v1"
	schedulingv1defaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	storagev1defaults "k8s.io/kubernetes/pkg/apis/storage/v1"
)

// defaults has the defaults that an API server sets of what it is sent. They are set of
// every object of a file, bound pods and nodes too: of one that comes from an API server
// they change nothing, and a file does not say for certain where it comes from.
var defaults = newDefaults()

func newDefaults() *runtime.Scheme {
	scheme := runtime.NewScheme()
	err := errors.Join(
		corev1defaults.RegisterDefaults(scheme), storagev1defaults.RegisterDefaults(scheme),
		resourcev1defaults.RegisterDefaults(scheme), schedulingv1defaults.RegisterDefaults(scheme),
	)
	if err != nil {
		panic(err) // the functions are generated, and return nil
	}
	return scheme
}

// setDefaults sets what an API server sets of an object.
func setDefaults(obj runtime.Object) {
	defaults.Default(obj)
	if pod, ok := obj.(*corev1.Pod); ok {
		setPodLevelRequests(pod)
	}
}

// setPodLevelRequests sets what is requested of a resource of which the pod as a whole
// names a limit alone. Kubernetes 1.37 does it behind all other defaults
// (podutil.DefaultPodLevelResources).
func setPodLevelRequests(pod *corev1.Pod) {
	if pod.Spec.Resources == nil {
		return
	}
	ofContainers := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for name, limit := range pod.Spec.Resources.Limits {
		if _, ok := pod.Spec.Resources.Requests[name]; ok || !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		if pod.Spec.Resources.Requests == nil {
			pod.Spec.Resources.Requests = corev1.ResourceList{}
		}
		if requested, ok := ofContainers[name]; ok {
			limit = requested
		}
		pod.Spec.Resources.Requests[name] = limit.DeepCopy()
	}
}
