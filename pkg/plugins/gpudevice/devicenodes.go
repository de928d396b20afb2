// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
)

// deviceNodes are the nodes that have devices, or contradict themselves about it,
// as the node informer tells of them. In a cluster without any, pods that ask for no
// device are none of the plugin's business, and that is known without looking at
// the nodes.
type deviceNodes struct {
	count atomic.Int64

	mu     sync.Mutex
	byName map[string]deviceNode
}

// deviceNode is a node's object and what it says.
type deviceNode struct {
	object *corev1.Node
	node   *device.Node
}

// none reports whether there are none. It is a hint: the snapshot of a cycle may be
// a moment older or newer.
func (d *deviceNodes) none() bool { return d.count.Load() == 0 }

// all returns them in no particular order.
func (d *deviceNodes) all() []deviceNode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.byName))
}

// observe takes note of a version of a node.
func (d *deviceNodes) observe(object *corev1.Node, keys *device.NodeKeys) {
	node := device.ParseNode(object, keys)
	d.mu.Lock()
	defer d.mu.Unlock()
	if node.Kind == device.NodeWithoutDevices {
		delete(d.byName, object.Name)
	} else {
		if d.byName == nil {
			d.byName = map[string]deviceNode{}
		}
		d.byName[object.Name] = deviceNode{object: object, node: node}
	}
	d.count.Store(int64(len(d.byName)))
}

// remove forgets a node that is gone.
func (d *deviceNodes) remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byName, name)
	d.count.Store(int64(len(d.byName)))
}
