// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
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
	// selecting are those slices that select nodes by what these say. Replaced, not changed.
	selecting atomic.Pointer[[]*device.SliceNodes]

	// synced is done when the handler has seen every slice of the first list, and store the
	// informer's; nil if none are watched.
	synced cache.DoneChecker
	store  cache.Store

	mu sync.Mutex
	// slices are those with devices, by UID.
	slices map[types.UID]*device.SliceNodes
	// perNode is the number of slices that publish devices of a node.
	perNode map[string]int
}

// watch adds an event handler to the informer that the scheduler's DRA plugin uses; if
// there is none, no claim is ever served.
func (o *publishedSlices) watch(handle fwk.Handle, logger klog.Logger) error {
	if handle.SharedDRAManager() == nil || len(o.claims.Drivers) == 0 {
		return nil
	}
	informer := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer()
	o.store = informer.GetStore()
	registration, err := informer.AddEventHandlerWithOptions(plugin.EventHandler(o.observe), cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return fmt.Errorf("watching ResourceSlices: %w", err)
	}
	o.synced = registration.HasSyncedChecker()
	return nil
}

// none reports whether there are none.
func (o *publishedSlices) none() bool { return o.count.Load() == 0 }

// on reports whether devices of the node are published. It takes no lock.
func (o *publishedSlices) on(node *corev1.Node) bool {
	if o.none() {
		return false
	}
	if _, ok := o.nodes.Load(node.Name); ok {
		return true
	}
	selecting := o.selecting.Load()
	return selecting != nil && slices.ContainsFunc(*selecting, func(nodes *device.SliceNodes) bool { return nodes.Has(node) })
}

// observe takes note that a slice was changed from old to updated; the one is nil if it is
// new, the other if it is gone. The informer's handler tells it, and each hint before it
// answers. Either may be behind the other, so what counts is what the informer's store has by
// now, in whatever version: after a restore of etcd, the newest has a lower one than those before.
func (o *publishedSlices) observe(old, updated *resourcev1.ResourceSlice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := updated
	if o.store != nil {
		obj, _, _ := o.store.GetByKey(cmp.Or(updated, old).Name) // the store of an informer has no errors
		now, _ = obj.(*resourcev1.ResourceSlice)
	}
	for _, slice := range [...]*resourcev1.ResourceSlice{old, updated} {
		if slice != nil && (now == nil || now.UID != slice.UID) {
			o.putLocked(slice.UID, nil)
		}
	}
	if now != nil {
		o.putLocked(now.UID, o.claims.NodesOfSlice(now))
	}
}

// putLocked sets the nodes of which a slice publishes devices, nil for none.
func (o *publishedSlices) putLocked(uid types.UID, nodes *device.SliceNodes) {
	known := o.slices[uid]
	if o.slices == nil {
		o.slices, o.perNode = map[types.UID]*device.SliceNodes{}, map[string]int{}
	}
	if nodes == nil {
		delete(o.slices, uid)
	} else {
		o.slices[uid] = nodes
	}
	if known.Equal(nodes) {
		return
	}
	for name := range nodes.Names() {
		o.countLocked(name, 1)
	}
	for name := range known.Names() {
		o.countLocked(name, -1)
	}
	if known.Selects() || nodes.Selects() {
		o.setSelectingLocked()
	}
}

// setSelectingLocked looks anew for the slices that select nodes.
func (o *publishedSlices) setSelectingLocked() {
	var selecting []*device.SliceNodes
	for _, nodes := range o.slices {
		if nodes.Selects() {
			selecting = append(selecting, nodes)
		}
	}
	before := o.selecting.Swap(&selecting)
	o.count.Add(int64(len(selecting)))
	if before != nil {
		o.count.Add(-int64(len(*before)))
	}
	o.revision.Add(1)
}

// countLocked adds to the number of slices that publish devices of a node. Hints ask for
// every waiting pod, so it does not look at other slices.
func (o *publishedSlices) countLocked(node string, change int) {
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
