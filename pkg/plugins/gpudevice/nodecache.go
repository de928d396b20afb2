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

// nodeCache finds the cell of a node by its name, without a lock: Filter does it
// for every node of every pod. A cell is made when its node is first looked at,
// and removed with the node. A cycle may look at a node that is gone: it gets a cell
// that is not kept.
type nodeCache struct {
	// mu serialises writers.
	mu    sync.Mutex
	cells sync.Map // *nodeCell by name
}

// nodeCell is what is remembered of one node: the view computed last, and the
// state by which the allocation cache says that the view is out of date.
type nodeCell struct {
	view  atomic.Pointer[nodeView]
	state *nodeState
}

// get returns the cell of a node, or nil. It allocates nothing.
func (c *nodeCache) get(name string) *nodeCell {
	value, _ := c.cells.Load(name)
	cell, _ := value.(*nodeCell)
	return cell
}

// getOrCreate is get; a cell that is missing gets the state that nodeStateOf returns, and is
// kept if that says that the node is there. It is asked with the cache locked, and remove
// takes that lock after the node has left what nodeStateOf asks: no cell outlives its node.
func (c *nodeCache) getOrCreate(name string, nodeStateOf func(name string) (state *nodeState, there bool)) *nodeCell {
	if cell := c.get(name); cell != nil {
		return cell
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cell := c.get(name); cell != nil {
		return cell
	}
	state, there := nodeStateOf(name)
	cell := &nodeCell{state: state}
	if there {
		c.cells.Store(name, cell)
	}
	return cell
}

// remove forgets a node.
func (c *nodeCache) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cells.Delete(name)
}

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
