// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/device"
)

// Watching says what is watched.
type Watching struct {
	// Seen is what could be listed: nothing else is watched.
	Seen *cluster.Cluster
	// Keys say how nodes describe their devices.
	Keys *device.NodeKeys
	// Interval is the least time between two reports.
	Interval time.Duration
	// Clock measures it.
	Clock clock.Clock
}

// Watch calls changed with a report, and with another one whenever an object has changed
// that it is computed from, until ctx ends or changed returns an error, which it returns.
// The report may be equal to the one before.
func (w Watching) Watch(ctx context.Context, client kubernetes.Interface, changed func(*Report) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	stores := map[string]cache.Store{}
	for _, kind := range cluster.Supported() {
		resource := kind.Resource
		if !slices.Contains(Resources(), resource) || !w.Seen.Has(resource) {
			continue
		}
		informer, err := w.informer(client, kind.GroupVersion().WithResource(resource), news)
		if err != nil {
			return err
		}
		go informer.RunWithContext(ctx)
		stores[resource] = informer.GetStore()
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return ctx.Err()
		}
	}
	for {
		// Changes from here on lead to another report.
		select {
		case <-news:
		default:
		}
		if err := changed(New(w.objects(stores), w.Keys)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		}
		pause := w.Clock.NewTimer(w.Interval)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C():
		}
	}
}

// informer returns an informer of the resource, in the namespace in which it could be
// listed, that puts a word into news with each change.
func (w Watching) informer(client kubernetes.Interface, resource schema.GroupVersionResource, news chan<- struct{}) (cache.SharedInformer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(w.Seen.ListedIn(resource.Resource)), informers.WithTransform(withoutManagedFields))
	generic, err := factory.ForResource(resource)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	informer := generic.Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(_, _ any) { tell() }, DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	return informer, nil
}

// withoutManagedFields drops half of an object.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// objects returns what the informers know, in the order of names.
func (w Watching) objects(stores map[string]cache.Store) Objects {
	return Objects{
		Nodes: listed[*corev1.Node](stores["nodes"]), NodesUnseen: !w.Seen.Has("nodes"),
		Pods: listed[*corev1.Pod](stores["pods"]), OnlyNamespace: w.Seen.ListedIn("pods"),
		Slices:  listed[*resourcev1.ResourceSlice](stores["resourceslices"]),
		Claims:  listed[*resourcev1.ResourceClaim](stores["resourceclaims"]),
		Classes: listed[*resourcev1.DeviceClass](stores["deviceclasses"]),
	}
}

func listed[T metav1.Object](store cache.Store) []T {
	if store == nil {
		return nil
	}
	var objects []T
	for _, obj := range store.List() {
		if typed, ok := obj.(T); ok {
			objects = append(objects, typed)
		}
	}
	slices.SortFunc(objects, func(a, b T) int {
		return comparePods(Pod{Namespace: a.GetNamespace(), Name: a.GetName()}, Pod{Namespace: b.GetNamespace(), Name: b.GetName()})
	})
	return objects
}
