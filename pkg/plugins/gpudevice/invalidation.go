// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import "sync/atomic"

// nodeInvalidation are what the allocation cache tells the views of one node.
type nodeInvalidation struct {
	// revision is raised when a view may not hold any more although the NodeInfo
	// is unchanged.
	revision atomic.Uint64
	// held is the number of pods that hold something here, without leaked ones.
	held   atomic.Int64
	leaked leakedList
	// gone is whether the node is: then the invalidation go with the last allocation. The cache's
	// lock guards it.
	gone bool
}

// invalidationOf returns the invalidation of a node, and whether the node is there. Those of one that
// is gone are kept only while something is held on it.
func (c *allocationCache) invalidationOf(node string) (*nodeInvalidation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := c.isThere(node)
	invalidation := c.invalidations[node]
	switch {
	case there:
		invalidation = c.invalidationLocked(node)
		invalidation.gone = false
	case invalidation == nil:
		invalidation = &nodeInvalidation{}
	}
	return invalidation, there
}

func (c *allocationCache) invalidationLocked(node string) *nodeInvalidation {
	invalidation, ok := c.invalidations[node]
	if !ok {
		invalidation = &nodeInvalidation{gone: !c.isThere(node)}
		c.invalidations[node] = invalidation
	}
	return invalidation
}

// isThere reports whether the informer's store has the node.
func (c *allocationCache) isThere(node string) bool {
	_, err := c.nodes.Get(node)
	return err == nil // the lister's only error is that it is not there
}

// releaseLocked lets go of the invalidation of a node that is gone and on which nothing is held.
func (c *allocationCache) releaseLocked(node string) {
	invalidation := c.invalidations[node]
	if invalidation != nil && invalidation.gone && len(c.byNode[node]) == 0 && len(invalidation.leaked.Load().all()) == 0 && !c.isThere(node) {
		delete(c.invalidations, node)
	}
}

// nodeGone forgets a node. What pods there still hold is kept until they go too: the node
// may be back under the same name.
func (c *allocationCache) nodeGone(node string) {
	// First the cells: none is left that has an invalidation which the allocation cache does not know.
	for _, pl := range c.sharedBy() {
		pl.nodes.remove(node)
		pl.deviceNodes.remove(node)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if invalidation := c.invalidations[node]; invalidation != nil {
		invalidation.gone = !c.isThere(node)
	}
	c.releaseLocked(node)
}
