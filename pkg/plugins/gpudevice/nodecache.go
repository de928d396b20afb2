// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// shards is how many parts a nodeCache has. A new node copies one part, so that
// thousands of nodes at the start do not copy the whole map each.
const shards = 256

// nodeCache finds the cell of a node by its name, without a lock: Filter does it
// for every node of every pod. A cell is made when its node is first looked at,
// and removed with the node. A cycle may look at a node that is gone: it gets a cell
// that is not kept.
type nodeCache struct {
	seed  maphash.Seed
	parts [shards]nodeCachePart
}

type nodeCachePart struct {
	// mu serialises writers, which replace the map; readers take what is there.
	mu    sync.Mutex
	cells atomic.Pointer[map[string]*nodeCell]
}

// nodeCell is what is remembered of one node: the view computed last, and the
// invalidation by which the ledger says that the view is out of date.
type nodeCell struct {
	view         atomic.Pointer[nodeView]
	invalidation *nodeInvalidation
}

func newNodeCache() *nodeCache {
	return &nodeCache{seed: maphash.MakeSeed()}
}

func (c *nodeCache) part(name string) *nodeCachePart {
	return &c.parts[maphash.String(c.seed, name)%shards]
}

// get returns the cell of a node, or nil. It allocates nothing.
func (c *nodeCache) get(name string) *nodeCell {
	cells := c.part(name).cells.Load()
	if cells == nil {
		return nil
	}
	return (*cells)[name]
}

// getOrCreate is get; a cell that is missing gets the invalidation that invalidationOf returns, and is
// kept if that says that the node is there. It is asked with the part locked, and remove
// takes that lock after the node has left what invalidationOf asks: no cell outlives its node.
func (c *nodeCache) getOrCreate(name string, invalidationOf func(name string) (invalidation *nodeInvalidation, there bool)) *nodeCell {
	if cell := c.get(name); cell != nil {
		return cell
	}
	part := c.part(name)
	part.mu.Lock()
	defer part.mu.Unlock()
	if cell := c.get(name); cell != nil {
		return cell
	}
	invalidation, there := invalidationOf(name)
	cell := &nodeCell{invalidation: invalidation}
	if !there {
		return cell
	}
	cells := map[string]*nodeCell{}
	if old := part.cells.Load(); old != nil {
		cells = maps.Clone(*old)
	}
	cells[name] = cell
	part.cells.Store(&cells)
	return cell
}

// remove forgets a node.
func (c *nodeCache) remove(name string) {
	part := c.part(name)
	part.mu.Lock()
	defer part.mu.Unlock()
	if c.get(name) == nil {
		return
	}
	cells := maps.Clone(*part.cells.Load())
	delete(cells, name)
	part.cells.Store(&cells)
}
