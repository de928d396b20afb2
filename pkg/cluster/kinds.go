// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// Kind is a kind of object that a plugin can read, or that decides what a pod has which a
// plugin reads.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural by which kubectl knows it.
	Resource string
	// Namespaced is whether its objects have a namespace.
	Namespaced bool
	// Object is an empty object of the kind. It must not be changed.
	Object runtime.Object

	// OptIn is whether an API server serves it only with a flag. Where it does not,
	// there are none.
	OptIn bool

	// list lists the objects of a namespace, or of all, a page at a time.
	list func(api, string) pages
}

// api is a client of an API server, and pages how it lists one resource.
type (
	api   = kubernetes.Interface
	pages = pager.ListPageFunc
)

// supported are the kinds in the order in which their objects become known to
// plugins: what others refer to comes first, pods last.
var supported = slices.Concat([]Kind{
	kind(corev1.SchemeGroupVersion, "namespaces", false, &corev1.Namespace{}, func(c api, _ string) pages { return page(c.CoreV1().Namespaces().List) }),
	kind(schedulingv1.SchemeGroupVersion, "priorityclasses", false, &schedulingv1.PriorityClass{}, func(c api, _ string) pages { return page(c.SchedulingV1().PriorityClasses().List) }),
	kind(corev1.SchemeGroupVersion, "services", true, &corev1.Service{}, func(c api, ns string) pages { return page(c.CoreV1().Services(ns).List) }),
	kind(discoveryv1.SchemeGroupVersion, "endpointslices", true, &discoveryv1.EndpointSlice{}, func(c api, ns string) pages { return page(c.DiscoveryV1().EndpointSlices(ns).List) }),
	kind(corev1.SchemeGroupVersion, "replicationcontrollers", true, &corev1.ReplicationController{}, func(c api, ns string) pages { return page(c.CoreV1().ReplicationControllers(ns).List) }),
	kind(appsv1.SchemeGroupVersion, "replicasets", true, &appsv1.ReplicaSet{}, func(c api, ns string) pages { return page(c.AppsV1().ReplicaSets(ns).List) }),
	kind(appsv1.SchemeGroupVersion, "statefulsets", true, &appsv1.StatefulSet{}, func(c api, ns string) pages { return page(c.AppsV1().StatefulSets(ns).List) }),
	kind(policyv1.SchemeGroupVersion, "poddisruptionbudgets", true, &policyv1.PodDisruptionBudget{}, func(c api, ns string) pages { return page(c.PolicyV1().PodDisruptionBudgets(ns).List) }),
	kind(storagev1.SchemeGroupVersion, "storageclasses", false, &storagev1.StorageClass{}, func(c api, _ string) pages { return page(c.StorageV1().StorageClasses().List) }),
	kind(storagev1.SchemeGroupVersion, "csidrivers", false, &storagev1.CSIDriver{}, func(c api, _ string) pages { return page(c.StorageV1().CSIDrivers().List) }),
	kind(storagev1.SchemeGroupVersion, "csinodes", false, &storagev1.CSINode{}, func(c api, _ string) pages { return page(c.StorageV1().CSINodes().List) }),
	kind(storagev1.SchemeGroupVersion, "csistoragecapacities", true, &storagev1.CSIStorageCapacity{}, func(c api, ns string) pages { return page(c.StorageV1().CSIStorageCapacities(ns).List) }),
	kind(corev1.SchemeGroupVersion, "persistentvolumes", false, &corev1.PersistentVolume{}, func(c api, _ string) pages { return page(c.CoreV1().PersistentVolumes().List) }),
	kind(corev1.SchemeGroupVersion, "persistentvolumeclaims", true, &corev1.PersistentVolumeClaim{}, func(c api, ns string) pages { return page(c.CoreV1().PersistentVolumeClaims(ns).List) }),
	kind(storagev1.SchemeGroupVersion, "volumeattachments", false, &storagev1.VolumeAttachment{}, func(c api, _ string) pages { return page(c.StorageV1().VolumeAttachments().List) }),
	kind(resourcev1.SchemeGroupVersion, "deviceclasses", false, &resourcev1.DeviceClass{}, func(c api, _ string) pages { return page(c.ResourceV1().DeviceClasses().List) }),
	kind(resourcev1.SchemeGroupVersion, "resourceslices", false, &resourcev1.ResourceSlice{}, func(c api, _ string) pages { return page(c.ResourceV1().ResourceSlices().List) }),
	kind(resourcev1.SchemeGroupVersion, "resourceclaims", true, &resourcev1.ResourceClaim{}, func(c api, ns string) pages { return page(c.ResourceV1().ResourceClaims(ns).List) }),
	kind(resourcev1.SchemeGroupVersion, "resourceclaimtemplates", true, &resourcev1.ResourceClaimTemplate{}, func(c api, ns string) pages { return page(c.ResourceV1().ResourceClaimTemplates(ns).List) }),
}, deviceTaintRuleKinds, podGroupKinds, []Kind{
	kind(corev1.SchemeGroupVersion, "nodes", false, &corev1.Node{}, func(c api, _ string) pages { return page(c.CoreV1().Nodes().List) }),
	kind(corev1.SchemeGroupVersion, "pods", true, &corev1.Pod{}, func(c api, ns string) pages { return page(c.CoreV1().Pods(ns).List) }),
})

func kind(version schema.GroupVersion, resource string, namespaced bool, obj runtime.Object, list func(api, string) pages) Kind {
	return Kind{
		GroupVersionKind: version.WithKind(reflect.TypeOf(obj).Elem().Name()),
		Resource:         resource, Namespaced: namespaced, Object: obj, list: list,
	}
}

// Supported returns every kind that has a part in scheduling, each call a fresh
// slice: what others refer to comes first, pods last.
func Supported() []Kind {
	return append([]Kind(nil), supported...)
}

// KindOf returns the kind of a typed object.
func KindOf(obj runtime.Object) (Kind, bool) {
	for i := range supported {
		if reflect.TypeOf(supported[i].Object) == reflect.TypeOf(obj) {
			return supported[i], true
		}
	}
	return Kind{}, false
}

// kindNamed returns the kind of an object that says its version and kind.
func kindNamed(gvk schema.GroupVersionKind) (Kind, bool) {
	for i := range supported {
		if supported[i].GroupVersionKind == gvk {
			return supported[i], true
		}
	}
	return Kind{}, false
}
