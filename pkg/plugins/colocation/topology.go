// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

const (
	// maxColumns is how many topology keys are remembered for the nodes of a list, and
	// maxTallies for how many Services and keys the peers are. A pod that names more
	// has them all until the next one.
	maxColumns = 32
	maxTallies = 256
	// spareValues is how many values without a node a column may keep.
	spareValues = 1024
)

// topology has what the nodes of a list have for the topology keys that pods name, and
// the peers there, as numbers by the node's position: a look at all nodes costs next
// to nothing then. Only the goroutine that schedules uses it.
type topology struct {
	index *peers.Index
	// nodes is the list, and objects are its nodes when they were looked at last.
	nodes   []fwk.NodeInfo
	objects []*corev1.Node
	// version is raised when what the columns say changes.
	version uint64
	columns map[string]*column
	tallies map[tallyKey]*tally
	// seen is up to where the index has told of nodes that changed, and pending are
	// those of which the list has not had what the index has.
	seen    uint64
	pending sets.Set[string]
	// clock counts the calls of update; it orders columns and tallies by use.
	clock uint64
}

// column is the values that the nodes have for one topology key.
type column struct {
	key string
	// at is the number of the node's value by the node's position, 0 for a node that
	// has none; numbers begin with 1, and values has them at one less.
	at      []int32
	numbers map[string]int32
	values  []string
	used    uint64
}

type tallyKey struct{ service, topologyKey string }

// tally is the peers of a Service by the numbers of a column's values.
type tally struct {
	column *column
	level  peers.Level
	// peers has 0 at 0.
	peers []int32
	used  uint64
}

func newTopology(index *peers.Index) *topology {
	return &topology{index: index, columns: map[string]*column{}, tallies: map[tallyKey]*tally{}, pending: sets.New[string]()}
}

// update takes over what has changed since the last call. The snapshot makes a new list
// when nodes come or go, and otherwise hands out the same one; which of its nodes got
// other labels, the index tells. That may be ahead of the list or behind it, so a node
// is looked at until the two have the same.
func (t *topology) update(nodes []fwk.NodeInfo, lister fwk.NodeInfoLister) {
	t.clock++
	changed, seen, ok := t.index.Relabeled(t.seen)
	t.seen = seen
	t.pending.Insert(changed...)
	if !ok {
		for _, node := range nodes {
			t.pending.Insert(node.Node().Name)
		}
	}
	if isNew := len(nodes) != len(t.nodes) || len(nodes) > 0 && &nodes[0] != &t.nodes[0]; isNew {
		t.nodes, t.objects = nodes, make([]*corev1.Node, len(nodes))
		t.version++
		for _, c := range t.columns {
			c.at = make([]int32, len(nodes))
		}
	} else if len(t.pending) == 0 {
		return
	}
	t.reread()
	for name := range t.pending {
		if t.isSettled(name, lister) {
			t.pending.Delete(name)
		}
	}
}

// reread takes over the values of the nodes whose object is another one now.
func (t *topology) reread() {
	for i, node := range t.nodes {
		before, object := t.objects[i], node.Node()
		if before == object {
			continue
		}
		t.objects[i] = object
		if before != nil && maps.Equal(before.Labels, object.Labels) {
			continue
		}
		t.version++
		for _, c := range t.columns {
			c.set(i, object)
		}
	}
}

// isSettled reports whether the list has of a node what the index has. Of one that goes
// and comes back, the index tells again.
func (t *topology) isSettled(name string, lister fwk.NodeInfoLister) bool {
	known, ok := t.index.NodeLabels(name)
	if !ok {
		return true
	}
	listed, err := lister.Get(name)
	return err == nil && maps.Equal(listed.Node().Labels, known)
}

// set takes over the value of the node at a position.
func (c *column) set(position int, node *corev1.Node) {
	value, ok := node.Labels[c.key]
	if !ok {
		c.at[position] = 0
		return
	}
	number, ok := c.numbers[value]
	if !ok {
		c.values = append(c.values, value)
		number = int32(len(c.values))
		c.numbers[value] = number
	}
	c.at[position] = number
}

// column returns the values of a topology key, up to date if update was called.
func (t *topology) column(key string) *column {
	c := t.columns[key]
	if c != nil && len(c.values) > len(t.nodes)+spareValues {
		delete(t.columns, key)
		c = nil
	}
	if c == nil {
		evict(t.columns, maxColumns, t.clock, func(c *column) uint64 { return c.used })
		c = &column{key: key, at: make([]int32, len(t.nodes)), numbers: map[string]int32{}}
		for i, node := range t.objects {
			c.set(i, node)
		}
		t.columns[key] = c
	}
	c.used = t.clock
	return c
}

// tally returns the peers of a Service, namespace/name, by the numbers of the column's
// values. It costs what has changed since it was asked for last.
func (t *topology) tally(service string, c *column, level peers.Level) *tally {
	key := tallyKey{service, c.key}
	counted := t.tallies[key]
	if counted == nil || counted.column != c {
		if counted == nil {
			evict(t.tallies, maxTallies, t.clock, func(t *tally) uint64 { return t.used })
		}
		counted = &tally{column: c, peers: make([]int32, 1, len(c.values)+1)}
		t.tallies[key] = counted
	}
	counted.used = t.clock
	if len(counted.peers) == 1 {
		counted.level = peers.Level{}
		counted.peers = append(counted.peers, make([]int32, len(c.values))...)
	}
	for value, n := range level.Since(counted.level) {
		if number := int(c.numbers[value]); number > 0 && number < len(counted.peers) {
			counted.peers[number] = int32(n)
		}
	}
	counted.level = level
	for number := len(counted.peers); number <= len(c.values); number++ {
		counted.peers = append(counted.peers, int32(level.Within(c.values[number-1])))
	}
	return counted
}

// evict makes room for one more of most, if it can: it deletes what was not used the
// longest, and nothing that was used now.
func evict[K comparable, V any](from map[K]V, most int, now uint64, usedAt func(V) uint64) {
	if len(from) < most {
		return
	}
	var oldest K
	at := now
	for key, value := range from {
		if used := usedAt(value); used < at {
			oldest, at = key, used
		}
	}
	if at < now {
		delete(from, oldest)
	}
}
