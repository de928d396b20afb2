// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// wants reports whether the pod, leaving its node aside, is one to bind.
func (o *Options) wants(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == o.SchedulerName &&
		o.watchesNamespace(pod.Namespace) &&
		len(pod.Spec.SchedulingGates) == 0 &&
		pod.DeletionTimestamp == nil
}

// watchesNamespace reports whether pods of the namespace are to be bound.
func (o *Options) watchesNamespace(namespace string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// podNamespaces returns the namespaces to watch pods in. FitResources needs
// everybody's pods, whoever binds them.
func (o *Options) podNamespaces() []string {
	if len(o.Namespaces) == 0 || o.Fit == FitResources {
		return []string{metav1.NamespaceAll}
	}
	return o.Namespaces
}

// podSelector limits the watch to what is needed. A pod that stops matching,
// because it was bound, arrives as a deletion.
func (o *Options) podSelector() fields.Selector {
	unfinished := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	if o.Fit == FitResources {
		return unfinished
	}
	return fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermEqualSelector("spec.schedulerName", o.SchedulerName),
		unfinished,
	)
}

// watch starts the informers and returns when the cluster has taken in all that
// their first lists returned. A choice made before that would not be uniform.
func (b *Binder) watch(ctx context.Context) error {
	factories := []informers.SharedInformerFactory{
		informers.NewSharedInformerFactoryWithOptions(b.client, 0, informers.WithTransform(slim)),
	}
	nodes, err := factories[0].Core().V1().Nodes().Informer().AddEventHandler(b.nodeHandler())
	if err != nil {
		return err
	}
	synced := []cache.InformerSynced{nodes.HasSynced}
	for _, namespace := range b.options.podNamespaces() {
		factory := informers.NewSharedInformerFactoryWithOptions(b.client, 0,
			informers.WithNamespace(namespace),
			informers.WithTransform(slim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.FieldSelector = b.options.podSelector().String()
			}))
		pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(b.podHandler())
		if err != nil {
			return err
		}
		factories, synced = append(factories, factory), append(synced, pods.HasSynced)
	}
	for _, factory := range factories {
		factory.StartWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("stopped before the first list of nodes and pods was complete")
	}
	return nil
}

func (b *Binder) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { b.enqueue(b.cluster.applyNode(obj.(*corev1.Node))) },
		UpdateFunc: func(_, obj any) {
			b.enqueue(b.cluster.applyNode(obj.(*corev1.Node)))
		},
		DeleteFunc: func(obj any) {
			if node, ok := last(obj).(*corev1.Node); ok {
				b.cluster.removeNode(node.Name)
			}
		},
	}
}

func (b *Binder) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { b.enqueue(b.cluster.applyPod(obj.(*corev1.Pod))) },
		UpdateFunc: func(oldObj, obj any) {
			old, pod := oldObj.(*corev1.Pod), obj.(*corev1.Pod)
			if old.UID != pod.UID {
				b.enqueue(b.cluster.removePod(old))
			}
			b.enqueue(b.cluster.applyPod(pod))
		},
		DeleteFunc: func(obj any) {
			if pod, ok := last(obj).(*corev1.Pod); ok {
				b.enqueue(b.cluster.removePod(pod))
			}
		},
	}
}

// enqueue has the pods tried without waiting for their back-off.
func (b *Binder) enqueue(keys []podKey) {
	for _, key := range keys {
		b.queue.Add(key)
	}
}

// last unwraps the last known state of an object whose deletion the watch
// missed.
func last(obj any) any {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return obj
}

// slim drops from cached objects the large parts that are never read.
func slim(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return obj, nil
}
