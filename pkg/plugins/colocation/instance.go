// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// instanceState is what all profiles of one scheduler instance share, because they
// share pods and nodes.
type instanceState struct {
	index *peers.Index
	// clock is the time by which pods that were rejected are woken.
	clock   clock.WithDelayedExecution
	waiting waitingPods
	// idle is what of the rules was said to have no effect.
	idle *lru.Cache
	// hinted is what the index was told of last by queueing hints.
	hinted     atomic.Pointer[event]
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	// synced are done when the handlers have seen every object of the first lists.
	synced []cache.DoneChecker
}

// instanceOf returns the state of the handle's informer factory, and makes it if
// it is the first to ask.
func instanceOf(ctx context.Context, handle fwk.Handle) (*instanceState, error) {
	factory := handle.SharedInformerFactory()
	core := factory.Core().V1()
	return plugin.Shared(core.Pods().Informer(), Name+"/instance", func() (*instanceState, error) {
		s := &instanceState{
			index: peers.New(peers.Stores{
				Pods:           core.Pods().Informer().GetStore(),
				Nodes:          core.Nodes().Informer().GetStore(),
				Services:       core.Services().Informer().GetStore(),
				EndpointSlices: endpointSlices(factory).GetStore(),
			}),
			clock:      clock.RealClock{},
			idle:       lru.New(maxIdle),
			pods:       core.Pods().Lister(),
			namespaces: core.Namespaces().Lister(),
		}
		return s, s.watch(ctx, factory)
	})
}

// watch adds the handlers to the informers. Before the informers start, nothing
// happens.
func (s *instanceState) watch(ctx context.Context, factory informers.SharedInformerFactory) error {
	logger := klog.FromContext(ctx)
	core := factory.Core().V1()
	for _, source := range []struct {
		what     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"pods", core.Pods().Informer(), plugin.EventHandler(s.podChanged)},
		{"nodes", core.Nodes().Informer(), plugin.EventHandler(s.nodeChanged)},
		{"services", core.Services().Informer(), plugin.EventHandler(func(old, updated *corev1.Service) { s.serviceChanged(logger, old, updated) })},
		{"endpointslices", endpointSlices(factory), plugin.EventHandler(func(old, updated *discoveryv1.EndpointSlice) { s.endpointsChanged(logger, old, updated) })},
		{"namespaces", core.Namespaces().Informer(), plugin.EventHandler(func(old, updated *corev1.Namespace) { s.namespaceChanged(logger, old, updated) })},
	} {
		registration, err := source.informer.AddEventHandlerWithOptions(source.handler, cache.HandlerOptions{Logger: &logger})
		if err != nil {
			return fmt.Errorf("%s: %w", source.what, err)
		}
		s.synced = append(s.synced, registration.HasSyncedChecker())
	}
	return nil
}

// endpointSlices returns an informer of the EndpointSlices that were not made by
// the controller of Services with selectors. The pods behind those are
// found by the selector, and their slices, one for each hundred pods, change all
// the time. Nobody else in the scheduler uses the informer of this type, which the
// factory has once.
func endpointSlices(factory informers.SharedInformerFactory) cache.SharedIndexInformer {
	return factory.InformerFor(&discoveryv1.EndpointSlice{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return discoveryinformers.NewFilteredEndpointSliceInformer(client, metav1.NamespaceAll, resync, cache.Indexers{},
			func(options *metav1.ListOptions) {
				options.LabelSelector = discoveryv1.LabelManagedBy + "!=endpointslice-controller.k8s.io"
			})
	})
}

// forgetIfGone drops what was recorded of a pod that was deleted before: then
// nothing else would. The informer changes its store before it calls the handler
// that forgets, so that one of the two sees it.
func (s *instanceState) forgetIfGone(pod *corev1.Pod) {
	if known, err := s.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || known.UID != pod.UID {
		s.waiting.remove(pod.UID)
	}
}

// namespaceLabels returns the labels of a namespace, and whether it is known. The
// lister is never behind what wakes a pod: the informer changes its store before
// it calls the handler that does.
func (s *instanceState) namespaceLabels(name string) (map[string]string, bool) {
	namespace, err := s.namespaces.Get(name)
	if err != nil {
		return nil, false // the lister's only error is that it is not there
	}
	return namespace.Labels, true
}

// event is a change that queueing hints are asked about, once for each pod.
type event struct {
	old, updated any
	// services are those that the pod is behind, or was, if it is about a pod.
	services []waitKey
}

// eventSeen brings the index up to an event of the scheduler, by sync, which asks about
// each event once for each pod that it may help, in one goroutine after the other.
// sync believes no event: the scheduler also calls pods deleted whose binding failed or
// whose nomination changed, and it repeats events when an attempt ends that was
// under way.
func (s *instanceState) eventSeen(old, updated any, sync func()) *event {
	seen := s.hinted.Load()
	if seen == nil || seen.old != old || seen.updated != updated {
		sync()
		seen = &event{old: old, updated: updated, services: s.servicesOf(old, updated)}
		s.hinted.Store(seen)
	}
	return seen
}

// servicesOf returns the Services that a pod is behind, or was before a change; nil for
// other objects. Nobody waits for a Service that the index does not watch: what made it stop
// also has the pods looked at that wait for the Service (serviceChanged).
func (s *instanceState) servicesOf(versions ...any) []waitKey {
	var services []waitKey
	for _, version := range versions {
		pod, ok := version.(*corev1.Pod)
		if !ok {
			continue
		}
		for _, name := range s.index.ServicesOf(pod) {
			if key := (waitKey{pod.Namespace, name}); !slices.Contains(services, key) {
				services = append(services, key)
			}
		}
	}
	return services
}

// podChanged takes over a change of a pod. Whom it may help, the queueing hints
// say.
func (s *instanceState) podChanged(old, updated *corev1.Pod) {
	s.syncPod(old, updated)
	if old != nil && (updated == nil || old.UID != updated.UID) {
		s.waiting.remove(old.UID)
	}
	if updated != nil && updated.Spec.NodeName != "" {
		s.waiting.remove(updated.UID)
	}
}

// syncPod lets the index read a pod that changed.
func (s *instanceState) syncPod(old, updated *corev1.Pod) {
	if updated == nil {
		updated = old
	}
	s.index.SyncPod(updated.Namespace, updated.Name)
}

// nodeChanged takes over a change of a node.
func (s *instanceState) nodeChanged(old, updated *corev1.Node) {
	if updated == nil {
		updated = old
	}
	s.index.SyncNode(updated.Name)
}
