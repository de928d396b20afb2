// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import "sync/atomic"

// nodeState is what the allocation cache keeps of one node, as kube-scheduler's cache has
// a podState for each pod.
type nodeState struct {
	// revision is raised when a view may not hold any more although the NodeInfo
	// is unchanged.
	revision atomic.Uint64
	// numAllocations is the number of allocations on the node.
	numAllocations atomic.Int64
	// stoppedSharing is whether this process has seen the node shared, and then not any more.
	stoppedSharing atomic.Bool
	// gone is whether the node is deleted: then this is, with the last allocation. The
	// cache's lock guards it.
	gone bool
}

// nodeStateOf returns the state of a node, and whether the node exists. That of a deleted
// node is kept only while it has allocations.
func (c *allocationCache) nodeStateOf(node string) (*nodeState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := c.isThere(node)
	state := c.nodeStates[node]
	switch {
	case there:
		state = c.getOrCreateNodeStateLocked(node)
		state.gone = false
	case state == nil:
		state = &nodeState{}
	}
	return state, there
}

func (c *allocationCache) getOrCreateNodeStateLocked(node string) *nodeState {
	state, ok := c.nodeStates[node]
	if !ok {
		state = &nodeState{gone: !c.isThere(node)}
		c.nodeStates[node] = state
	}
	return state
}

// isThere reports whether the informer's store has the node.
func (c *allocationCache) isThere(node string) bool {
	_, err := c.nodes.Get(node)
	return err == nil // the lister's only error is that it is not there
}

// deleteNodeStateIfUnusedLocked deletes the state of a deleted node without allocations.
func (c *allocationCache) deleteNodeStateIfUnusedLocked(node string) {
	state := c.nodeStates[node]
	if state != nil && state.gone && len(c.byNode[node]) == 0 && !c.isThere(node) {
		delete(c.nodeStates, node)
	}
}

// removeNode forgets a node. What pods there still hold is kept until they go too: the node
// may be back under the same name.
func (c *allocationCache) removeNode(node string) {
	// First the cells: none is left with a state that the allocation cache does not have.
	for _, pl := range c.sharedBy() {
		pl.nodes.remove(node)
		pl.deviceNodes.remove(node)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.nodeStates[node]; state != nil {
		state.gone = !c.isThere(node)
	}
	c.deleteNodeStateIfUnusedLocked(node)
}
