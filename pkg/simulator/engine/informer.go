// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// informerSet is the informers of all kinds that a plugin can read, within a real
// factory. The factory is never started: the
// engine tells them what changes.
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
		inf := &informer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind.Object, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		set.byResource[kind.Resource] = inf
		set.InformerFor(kind.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return inf })
	}
	return set
}

// informer is a SharedIndexInformer that is changed by calls, and has
// called every handler when the call returns: in the order in which the handlers
// were added, one event after the other. Nothing runs in the background: of the
// informer within it only the store is used.
type informer struct {
	cache.SharedIndexInformer

	// mu guards handlers, which plugins may add from goroutines of their own.
	mu       sync.Mutex
	handlers []*registration
}

// registration is one handler of an informer.
type registration struct {
	handler cache.ResourceEventHandler

	synced
}

// synced is the part of an informer or a handler that has seen everything from the
// start.
type synced struct{}

// HasSynced returns true.
func (synced) HasSynced() bool { return true }

// HasSyncedChecker returns a checker that is done.
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }

// Name returns what is checked.
func (synced) Name() string { return "simulator" }

// Done returns a closed channel.
func (synced) Done() <-chan struct{} { return closed }

// closed is a channel that is closed; it is only received from.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// HasSynced returns true: what is there is all that there is.
func (*informer) HasSynced() bool { return true }

// HasSyncedChecker returns a checker that is done.
func (*informer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// set adds an object, or replaces the one of its name, and tells the handlers.
// initial is whether it was there before the scheduler started.
func (i *informer) set(obj runtime.Object, initial bool) error {
	old, ok, err := i.GetIndexer().Get(obj)
	if err == nil {
		err = i.GetIndexer().Add(obj)
	}
	if err != nil {
		return fmt.Errorf("storing a %T: %w", obj, err)
	}
	for _, r := range i.registered() {
		if ok {
			r.handler.OnUpdate(old, obj)
		} else {
			r.handler.OnAdd(obj, initial)
		}
	}
	return nil
}

// remove deletes an object, and tells the handlers if it was there.
func (i *informer) remove(obj runtime.Object) error {
	old, ok, err := i.GetIndexer().Get(obj)
	if err != nil || !ok {
		return err
	}
	if err := i.GetIndexer().Delete(old); err != nil {
		return fmt.Errorf("deleting a %T: %w", obj, err)
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

// AddEventHandler adds a handler. It has seen what is there when the
// call returns.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	r := &registration{handler: handler}
	i.mu.Lock()
	i.handlers = append(slices.Clone(i.handlers), r)
	i.mu.Unlock()
	keys := i.GetIndexer().ListKeys()
	slices.Sort(keys) // the store has no order
	for _, key := range keys {
		if obj, ok, err := i.GetIndexer().GetByKey(key); err == nil && ok {
			handler.OnAdd(obj, true)
		}
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: there is no resync.
func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions is AddEventHandler: nothing is logged here.
func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler removes a handler that was added before.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(r *registration) bool { return r == handle })
	return nil
}
