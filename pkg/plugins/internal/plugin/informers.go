// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// EventHandler is a handler that calls changed for every change of an object from one
// version to the next: old is nil if the object is new, and updated if it is gone.
//
// An informer that missed a deletion delivers a tombstone, or the next object of the
// name as an update of the last. changed is then told that the last one is gone, and in
// the second case that the next one is new.
func EventHandler[T any, O interface {
	*T
	metav1.Object
}](changed func(old, updated O)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(O); ok {
				changed(nil, object)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, okOld := oldObj.(O)
			updated, okNew := newObj.(O)
			switch {
			case !okOld || !okNew:
			case old.GetUID() != updated.GetUID():
				changed(old, nil)
				changed(nil, updated)
			default:
				changed(old, updated)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if object, ok := obj.(O); ok {
				changed(object, nil)
			}
		},
	}
}

// WaitForSync returns when the handlers have seen all that existed at the start, or with
// what ended ctx. The scheduler waits for its own handlers before the first cycle, but
// not for those of plugins; these lag by what it takes to run through the lists, and
// only once.
func WaitForSync(ctx context.Context, handlers ...cache.DoneChecker) error {
	for _, handler := range handlers {
		if cache.IsDone(handler) {
			continue
		}
		select {
		case <-handler.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
