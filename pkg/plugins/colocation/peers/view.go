// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"hash/maphash"
	"iter"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// View is where the peers behind a Service were when Index.Lookup returned it.
// It never changes, takes no lock, and may be read from any goroutine; reading
// allocates nothing.
//
// A peer is a pod behind the Service that has a node, or has one reserved
// (Index.Reserve), and runs or will run: not terminating, not Succeeded, not
// Failed. Whether it is ready does not matter, because it is about to be. An
// endpoint without a pod counts as a peer on the node that it names; one that names
// a zone only counts in Total and in the level topology.kubernetes.io/zone. Peers on
// nodes that do not exist (any more) are nowhere, and do not count at all.
type View struct {
	members membership
	total   int
	levels  []viewLevel
}

// viewLevel is a level of a View.
type viewLevel struct {
	key   string
	level Level
}

// Total returns the number of peers.
func (v *View) Total() int { return v.total }

// Within returns the number of peers on nodes whose label topologyKey has the
// value. It is 0 for a key that Lookup was not told of, so tell it. In a loop over
// nodes, Level is faster.
func (v *View) Within(topologyKey, value string) int {
	return v.Level(topologyKey).Within(value)
}

// Level returns the peers by the values of one topology key; an empty level for a
// key that Lookup was not told of, or that no node with a peer carries.
func (v *View) Level(topologyKey string) Level {
	for i := range v.levels {
		if v.levels[i].key == topologyKey {
			return v.levels[i].level
		}
	}
	return Level{}
}

// HoldsNew reports whether a value of a topology key that both views were asked for
// holds a peer in v and none in before; before may be nil, and has none then. It
// compares nothing if the two are one view.
func (v *View) HoldsNew(before *View, topologyKey string) bool {
	if v == before {
		return false
	}
	var had Level
	if before != nil {
		had = before.Level(topologyKey)
	}
	for value, peers := range v.Level(topologyKey).Since(had) {
		if peers > 0 && had.Within(value) == 0 {
			return true
		}
	}
	return false
}

// IsPeer reports whether the pod is, or would be on a node of its own, a peer: it
// is behind the Service and neither terminating nor terminated. It looks at what
// it is given and not at what the index knows of the pod, so that the dry runs
// of preemption can add and remove pods.
func (v *View) IsPeer(pod *corev1.Pod) bool {
	return pod.Namespace == v.members.namespace && !isTerminal(pod) && v.members.has(pod)
}

// shardCount is in how many parts a Level is copied when it changes.
const shardCount = 64

// hashSeed makes the hashes of this process its own, so that no author of labels can choose
// values that all fall into one shard.
var hashSeed = maphash.MakeSeed()

func shardOf(value string) uint64 { return maphash.String(hashSeed, value) % shardCount }

// Level is the number of peers by the values of one topology key. The zero value
// has none. A Level of a View never changes.
type Level struct {
	shards *[shardCount]map[string]int
	size   int
}

// Within returns the number of peers on nodes with this value of the key.
func (l Level) Within(value string) int {
	if l.shards == nil {
		return 0
	}
	return l.shards[shardOf(value)][value]
}

// Len returns the number of values with a peer.
func (l Level) Len() int { return l.size }

// All yields every value that has a peer and the number of its peers, in no
// particular order.
func (l Level) All(yield func(value string, peers int) bool) { l.Since(Level{})(yield) }

// Since yields every value whose number of peers is another one than in before, and the
// number now, 0 too, in no particular order. It looks only at the parts that the two
// do not have in common: of two Levels of one Service, those that changed between them.
func (l Level) Since(before Level) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		if l.shards == before.shards {
			return
		}
		for i := range shardCount {
			now, was := l.shard(i), before.shard(i)
			if isSameMap(now, was) {
				continue
			}
			for value, peers := range now {
				if peers != was[value] && !yield(value, peers) {
					return
				}
			}
			for value := range was {
				if _, ok := now[value]; !ok && !yield(value, 0) {
					return
				}
			}
		}
	}
}

func (l Level) shard(i int) map[string]int {
	if l.shards == nil {
		return nil
	}
	return l.shards[i]
}

// isSameMap reports whether two maps are one. A shard of a Level never changes, so that
// the two have the same content then.
func isSameMap(a, b map[string]int) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// counts is a Level that is being counted. What snapshot returned is not changed by
// a later add, which copies what the two have in common: one shard, if that one was
// not copied since.
type counts struct {
	Level
	// owned has a bit for each shard that no snapshot refers to; without any, the
	// array is a snapshot's too.
	owned uint64
}

// snapshot returns what is counted now.
func (c *counts) snapshot() Level {
	c.owned = 0
	return c.Level
}

// add counts more of a value. What comes to 0 goes away.
func (c *counts) add(value string, more int) {
	if more == 0 {
		return
	}
	if c.owned == 0 {
		shards := new([shardCount]map[string]int)
		if c.shards != nil {
			*shards = *c.shards
		}
		c.shards = shards
	}
	i := shardOf(value)
	shard := c.shards[i]
	if bit := uint64(1) << i; c.owned&bit == 0 {
		c.owned |= bit
		shard = maps.Clone(shard)
	}
	if shard == nil {
		shard = map[string]int{}
	}
	c.shards[i] = shard
	before := shard[value]
	switch {
	case before == 0:
		c.size++
	case before+more == 0:
		delete(shard, value)
		if c.size--; c.size == 0 {
			*c = counts{}
		}
		return
	}
	shard[value] = before + more
}
