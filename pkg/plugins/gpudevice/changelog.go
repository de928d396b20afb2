// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import "slices"

// changeLog is a list of what changed, the oldest first, that several readers follow, each
// from where it has got to. The zero value is empty.
type changeLog[T any] struct {
	entries []T
	// dropped is how many were before the first of entries.
	dropped uint64
}

// add adds what changed, and drops the older half of the list when it has more than most.
func (l *changeLog[T]) add(changed T, most int) {
	if len(l.entries) > most {
		half := len(l.entries) / 2
		l.entries = slices.Delete(l.entries, 0, half)
		l.dropped += uint64(half) //nolint:gosec // not negative
	}
	l.entries = append(l.entries, changed)
}

// end returns how many were added so far: from where a reader that knows all goes on.
func (l *changeLog[T]) end() uint64 { return l.dropped + uint64(len(l.entries)) }

// since returns what was added after so many, and whether none of that was dropped. It is
// valid until the next call of add.
func (l *changeLog[T]) since(seen uint64) ([]T, bool) {
	if seen < l.dropped || seen > l.end() {
		return nil, false
	}
	return l.entries[seen-l.dropped:], true
}

// maxNodeChanges is how many changes of nodes the allocation cache remembers: a cycle sees
// those since the last one, a few.
const maxNodeChanges = 4096

// raiseRevision makes the views of a node worthless.
func (c *allocationCache) raiseRevision(node string, state *nodeState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raiseRevisionLocked(node, state)
}

// raiseRevisions makes the views of all nodes worthless.
func (c *allocationCache) raiseRevisions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, state := range c.nodeStates {
		c.raiseRevisionLocked(node, state)
	}
}

func (c *allocationCache) raiseRevisionLocked(node string, state *nodeState) {
	state.revision.Add(1)
	c.changes.add(node, maxNodeChanges)
}

// nodesChangedSince returns the nodes whose revision was raised after so many changes, how
// many there are now, and whether those are all.
func (c *allocationCache) nodesChangedSince(seen uint64) (nodes []string, now uint64, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, all = c.changes.since(seen)
	return slices.Clone(nodes), c.changes.end(), all
}
