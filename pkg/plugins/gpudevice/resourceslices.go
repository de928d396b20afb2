// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// publishedSlices are the nodes on which a DRA driver of the arguments publishes devices, by its
// ResourceSlices: they are the devices that Berth would share. In a cluster without
// such slices it is empty and costs nothing: the scheduler's DRA plugin watches them in
// any case.
type publishedSlices struct {
	claims *device.Claims
	// revision is raised when a node comes or goes.
	revision atomic.Uint64
	count    atomic.Int64
	nodes    sync.Map // names; written with the lock held

	// synced is done when the handler has seen every slice of the first list; nil if
	// none are watched.
	synced cache.DoneChecker

	mu sync.Mutex
	// slices are those with devices, or that had some, by UID.
	slices map[types.UID]publishedSlice
	// perNode is the number of slices that publish devices of a node.
	perNode map[string]int
}

// publishedSlice is what one slice says: in which version, and of which node. The name is
// empty if it publishes nothing.
type publishedSlice struct {
	version uint64
	node    string
}

// watch adds an event handler to the informer that the scheduler's DRA plugin uses; if
// there is none, no claim is ever served.
func (o *publishedSlices) watch(handle fwk.Handle, logger klog.Logger) error {
	if handle.SharedDRAManager() == nil || len(o.claims.Drivers) == 0 {
		return nil
	}
	informer := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer()
	registration, err := informer.AddEventHandlerWithOptions(plugin.EventHandler(func(old, slice *resourcev1.ResourceSlice) {
		if slice == nil {
			o.remove(old.UID)
			return
		}
		o.observe(slice, true)
	}), cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return fmt.Errorf("watching ResourceSlices: %w", err)
	}
	o.synced = registration.HasSyncedChecker()
	return nil
}

// none reports whether there are none.
func (o *publishedSlices) none() bool { return o.count.Load() == 0 }

// on reports whether devices of the node are published. It takes no lock.
func (o *publishedSlices) on(node string) bool {
	if o.none() {
		return false
	}
	_, ok := o.nodes.Load(node)
	return ok
}

// observe takes note of a version of a slice, unless a later one is known. A slice that
// is not known may be gone: only the informer's handler adds it.
func (o *publishedSlices) observe(slice *resourcev1.ResourceSlice, add bool) {
	version, _ := strconv.ParseUint(slice.ResourceVersion, 10, 64)
	node := o.claims.NodeOfSlice(slice)
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.slices[slice.UID]
	if !ok && (!add || node == "") || ok && version < known.version {
		return
	}
	if o.slices == nil {
		o.slices, o.perNode = map[types.UID]publishedSlice{}, map[string]int{}
	}
	o.slices[slice.UID] = publishedSlice{version: version, node: node}
	if known.node != node {
		o.countLocked(known.node, -1)
		o.countLocked(node, 1)
	}
}

// remove forgets a slice that is gone.
func (o *publishedSlices) remove(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.slices[uid]
	if !ok {
		return
	}
	delete(o.slices, uid)
	o.countLocked(known.node, -1)
}

// countLocked adds to the number of slices that publish devices of a node. Hints ask for
// every waiting pod, so it does not look at other slices.
func (o *publishedSlices) countLocked(node string, change int) {
	if node == "" {
		return
	}
	o.perNode[node] += change
	switch count := o.perNode[node]; {
	case count == 0:
		delete(o.perNode, node)
		o.nodes.Delete(node)
		o.count.Add(-1)
	case count == 1 && change > 0:
		o.nodes.Store(node, struct{}{})
		o.count.Add(1)
	default:
		return
	}
	o.revision.Add(1)
}
