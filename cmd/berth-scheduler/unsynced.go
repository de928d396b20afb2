// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

// syncTimeout is how long the informers may take to fill before the log names
// those that have not, and how long until it does so again.
const syncTimeout = 30 * time.Second

// nameUnsynced logs which informers have not filled, every timeout again until all
// have or ctx is done; that the API server cannot be reached, where that is why. It
// is the one symptom that is left if a right is missing
// that settings.Rights does not know, or if the API server does not serve a
// resource: upstream only logs that it retries. dynamic may be nil.
func nameUnsynced(ctx context.Context, timeout time.Duration, reach func() error, typed informers.SharedInformerFactory, dynamic dynamicinformer.DynamicSharedInformerFactory) {
	ticker := time.NewTicker(timeout)
	defer ticker.Stop()
	for {
		// Waiting first, because the factories only tell of informers that were
		// started, and that happens later, in app.Run.
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		unsynced := unsyncedInformers(typed, dynamic)
		if len(unsynced) == 0 {
			return
		}
		if err := reach(); err != nil {
			klog.FromContext(ctx).Error(err, preflight.NoPodUntilReached)
			continue
		}
		klog.FromContext(ctx).Error(nil, "No pod is scheduled until these resources can be listed and watched: is the API server serving them, and does this credential's role allow it?",
			"resources", unsynced)
	}
}

// unsyncedInformers names what was started and has not filled.
func unsyncedInformers(typed informers.SharedInformerFactory, dynamic dynamicinformer.DynamicSharedInformerFactory) []string {
	// Asked, not waited for.
	done := make(chan struct{})
	close(done)
	var unsynced []string
	for informed, synced := range typed.WaitForCacheSync(done) {
		if !synced {
			unsynced = append(unsynced, typeName(informed))
		}
	}
	if dynamic != nil {
		for resource, synced := range dynamic.WaitForCacheSync(done) {
			if !synced {
				unsynced = append(unsynced, resource.GroupResource().String())
			}
		}
	}
	slices.Sort(unsynced)
	return unsynced
}

// typeName returns "v1.Node" for *v1.Node.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.String()
}
