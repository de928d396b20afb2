// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
)

// informerSet is the informers of all kinds that a plugin can read, within a real
// factory. The factory is never started: what changes is told to them by the
// engine.
type informerSet struct {
	informers.SharedInformerFactory

	byResource map[string]*informer
}

// newInformerSet registers an informer of ours for every kind before a plugin can
// ask for one. A plugin that asks for a kind that is not among them gets one that
// is empty and never fills.
func newInformerSet(client kubernetes.Interface) *informerSet {
	set := &informerSet{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		byResource:            map[string]*informer{},
	}
	for _, kind := range cluster.Supported() {
		inf := newInformer(kind.Resource)
		set.byResource[kind.Resource] = inf
		set.InformerFor(kind.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return inf })
	}
	return set
}

// informer is a SharedIndexInformer that is told of changes by calls, and has
// told every handler when the call returns: in the order in which the handlers
// were added, one event after the other. Nothing runs in the background.
type informer struct {
	cache.Indexer // the store

	resource string

	// mu guards handlers, which plugins may add from goroutines of their own.
	mu       sync.Mutex
	handlers []*registration
}

var _ cache.SharedIndexInformer = &informer{}

// registration is one handler of an informer.
type registration struct {
	handler cache.ResourceEventHandler
}

var _ cache.ResourceEventHandlerRegistration = &registration{}

// HasSynced returns true: a handler has seen everything when it was added.
func (r *registration) HasSynced() bool { return true }

// HasSyncedChecker returns a checker that is done.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return synced("handler") }

// synced is a DoneChecker that is done from the start.
type synced string

// Name returns what is checked.
func (s synced) Name() string { return string(s) }

// Done returns a closed channel.
func (s synced) Done() <-chan struct{} { return closed }

// closed is a channel that is closed; it is only received from.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newInformer(resource string) *informer {
	return &informer{
		Indexer:  cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		resource: resource,
	}
}

// create adds an object and tells the handlers.
func (i *informer) create(obj runtime.Object) error {
	return i.add(obj, false)
}

// load is create for an object that was there before the scheduler started.
func (i *informer) load(obj runtime.Object) error {
	return i.add(obj, true)
}

func (i *informer) add(obj runtime.Object, initial bool) error {
	if old, ok, err := i.Get(obj); err != nil || ok {
		return fmt.Errorf("adding to %s: %w", i.resource, errors.Join(err, alreadyThere(old)))
	}
	if err := i.Add(obj); err != nil {
		return fmt.Errorf("adding to %s: %w", i.resource, err)
	}
	for _, r := range i.registered() {
		r.handler.OnAdd(obj, initial)
	}
	return nil
}

func alreadyThere(obj any) error {
	if obj == nil {
		return nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s/%s is there already", accessor.GetNamespace(), accessor.GetName())
}

// update replaces an object that is there, and tells the handlers.
func (i *informer) update(obj runtime.Object) error {
	old, ok, err := i.Get(obj)
	if err != nil {
		return fmt.Errorf("updating in %s: %w", i.resource, err)
	}
	if !ok {
		return i.create(obj)
	}
	if err := i.Update(obj); err != nil {
		return fmt.Errorf("updating in %s: %w", i.resource, err)
	}
	for _, r := range i.registered() {
		r.handler.OnUpdate(old, obj)
	}
	return nil
}

// remove deletes an object, and tells the handlers if it was there.
func (i *informer) remove(obj runtime.Object) error {
	old, ok, err := i.Get(obj)
	if err != nil || !ok {
		return err
	}
	if err := i.Delete(old); err != nil {
		return fmt.Errorf("deleting from %s: %w", i.resource, err)
	}
	for _, r := range i.registered() {
		r.handler.OnDelete(old)
	}
	return nil
}

// registered returns the handlers as they are now. The list is replaced when one
// is added or removed, so it may be walked while a handler does so.
func (i *informer) registered() []*registration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers
}

// AddEventHandler adds a handler. It is told of what is there before the call
// returns.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there is no resync.
func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions is AddEventHandler: nothing is logged here.
func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{handler: handler}
	i.mu.Lock()
	i.handlers = append(slices.Clone(i.handlers), r)
	i.mu.Unlock()
	keys := i.ListKeys()
	slices.Sort(keys) // the store has no order
	for _, key := range keys {
		if obj, ok, err := i.GetByKey(key); err == nil && ok {
			handler.OnAdd(obj, true)
		}
	}
	return r, nil
}

// RemoveEventHandler removes a handler that was added before.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(r *registration) bool { return r == handle })
	return nil
}

// GetStore returns the store.
func (i *informer) GetStore() cache.Store { return i.Indexer }

// GetIndexer returns the store.
func (i *informer) GetIndexer() cache.Indexer { return i.Indexer }

// GetController returns nil: there is none.
func (i *informer) GetController() cache.Controller { return nil }

// Run waits until the channel is closed: there is nothing to run.
func (i *informer) Run(stop <-chan struct{}) { <-stop }

// RunWithContext waits until the context ends: there is nothing to run.
func (i *informer) RunWithContext(ctx context.Context) { <-ctx.Done() }

// HasSynced returns true: what is there is all that there is.
func (i *informer) HasSynced() bool { return true }

// HasSyncedChecker returns a checker that is done.
func (i *informer) HasSyncedChecker() cache.DoneChecker { return synced(i.resource) }

// LastSyncResourceVersion returns "": objects have no versions here.
func (i *informer) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler does nothing: there is no watch.
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch.
func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform refuses a transformation: objects are stored as they are.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	if transform == nil {
		return nil
	}
	return errors.New("the simulator's informers do not transform objects")
}

// IsStopped returns false.
func (i *informer) IsStopped() bool { return false }
