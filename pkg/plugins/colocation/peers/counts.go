// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// counts is a number by string, absent meaning 0. It never changes: add returns
// another one that shares all but a path with it. So a copy of it is a snapshot at
// no cost, and may be read from any goroutine.
//
// It is a hash trie as by Bagwell, "Ideal Hash Trees" (2001): each level takes
// branchBits of a key's hash, and stores the children that exist side by side, with
// a bitmap of which those are. With n keys, get and add look at about log32(n)
// branches: 3 of them with 5,000 keys, where add copies some 1 kB.
type counts struct {
	root *branch
	size int
}

const (
	branchBits = 5
	branchMask = 1<<branchBits - 1
	hashBits   = 64
)

// branch is an inner node of the trie. Once it can be reached from a counts it
// never changes.
type branch struct {
	// bitmap has a bit for each child that exists; children are in the order of
	// the bits. Below the last bit of the hash it is 0, and children are leaves in
	// any order.
	bitmap   uint32
	children []child
}

// child is a leaf, or a branch if below is not nil.
type child struct {
	below *branch
	key   string
	hash  uint64
	count int32
}

// hashSeed makes the hashes of this process its own, so that nobody can choose
// values that collide.
var hashSeed = maphash.MakeSeed()

// newCounts returns what the map says, without the paths that one add after the
// other would copy.
func newCounts(from map[string]int) counts {
	root, size := &branch{}, 0
	for key, count := range from {
		if count != 0 {
			root.insert(0, child{key: key, hash: maphash.String(hashSeed, key), count: int32(count)})
			size++
		}
	}
	if size == 0 {
		return counts{}
	}
	return counts{root: root, size: size}
}

// get returns the count of the key.
func (c counts) get(key string) int {
	if c.root == nil {
		return 0
	}
	return int(c.root.get(maphash.String(hashSeed, key), key))
}

// add returns counts with delta more of the key. What comes to 0 goes away.
func (c counts) add(key string, delta int) counts {
	if delta == 0 {
		return c
	}
	root := c.root
	if root == nil {
		root = &branch{}
	}
	root, grown := root.add(0, maphash.String(hashSeed, key), key, int32(delta))
	if len(root.children) == 0 {
		root = nil
	}
	return counts{root: root, size: c.size + grown}
}

// len returns the number of keys.
func (c counts) len() int { return c.size }

// all calls yield with every key and its count, until yield returns false.
func (c counts) all(yield func(key string, count int) bool) {
	if c.root != nil {
		c.root.all(yield)
	}
}

func (b *branch) get(hash uint64, key string) int32 {
	rest := hash
	for shift := 0; shift < hashBits; shift += branchBits {
		bit := uint32(1) << (rest & branchMask)
		if b.bitmap&bit == 0 {
			return 0
		}
		next := &b.children[bits.OnesCount32(b.bitmap&(bit-1))]
		if next.below == nil {
			if next.key == key {
				return next.count
			}
			return 0
		}
		b, rest = next.below, rest>>branchBits
	}
	for i := range b.children {
		if b.children[i].key == key {
			return b.children[i].count
		}
	}
	return 0
}

// add returns the branch with delta more of the key, and by how much the number of
// keys below it grew. The branch is shift bits of the hash below the root.
func (b *branch) add(shift int, hash uint64, key string, delta int32) (*branch, int) {
	if shift >= hashBits {
		return b.addToList(hash, key, delta)
	}
	bit := uint32(1) << (hash >> shift & branchMask)
	at := bits.OnesCount32(b.bitmap & (bit - 1))
	if b.bitmap&bit == 0 {
		leaf := child{key: key, hash: hash, count: delta}
		return &branch{bitmap: b.bitmap | bit, children: inserted(b.children, at, leaf)}, 1
	}
	old := &b.children[at]
	if old.below != nil {
		below, grown := old.below.add(shift+branchBits, hash, key, delta)
		return b.with(at, bit, below), grown
	}
	if old.key != key {
		// Two keys share the bits so far: both move down.
		below, _ := (&branch{}).add(shift+branchBits, old.hash, old.key, old.count)
		below, _ = below.add(shift+branchBits, hash, key, delta)
		return b.with(at, bit, below), 1
	}
	if old.count+delta == 0 {
		return b.without(at, bit), -1
	}
	leaf := *old
	leaf.count += delta
	return &branch{bitmap: b.bitmap, children: replaced(b.children, at, leaf)}, 0
}

// insert adds a leaf whose key is not there yet to a branch that nobody else can
// reach yet, which is as deep as in add.
func (b *branch) insert(shift int, leaf child) {
	if shift >= hashBits {
		b.children = append(b.children, leaf)
		return
	}
	bit := uint32(1) << (leaf.hash >> shift & branchMask)
	at := bits.OnesCount32(b.bitmap & (bit - 1))
	if b.bitmap&bit == 0 {
		b.bitmap |= bit
		b.children = slices.Insert(b.children, at, leaf)
		return
	}
	next := &b.children[at]
	if next.below == nil {
		below := &branch{}
		below.insert(shift+branchBits, *next)
		*next = child{below: below}
	}
	next.below.insert(shift+branchBits, leaf)
}

// addToList is add where the hash has no bits left.
func (b *branch) addToList(hash uint64, key string, delta int32) (*branch, int) {
	for at := range b.children {
		if b.children[at].key != key {
			continue
		}
		leaf := b.children[at]
		if leaf.count += delta; leaf.count == 0 {
			return b.without(at, 0), -1
		}
		return &branch{children: replaced(b.children, at, leaf)}, 0
	}
	return &branch{children: inserted(b.children, len(b.children), child{key: key, hash: hash, count: delta})}, 1
}

// with returns the branch with another one below it. Of one that is empty, or that
// holds a single leaf, no branch is kept, so that equal contents have equal tries
// however they came about.
func (b *branch) with(at int, bit uint32, below *branch) *branch {
	next := child{below: below}
	switch {
	case len(below.children) == 0:
		return b.without(at, bit)
	case len(below.children) == 1 && below.children[0].below == nil:
		next = below.children[0]
	}
	return &branch{bitmap: b.bitmap, children: replaced(b.children, at, next)}
}

func (b *branch) without(at int, bit uint32) *branch {
	children := make([]child, 0, len(b.children)-1)
	children = append(append(children, b.children[:at]...), b.children[at+1:]...)
	return &branch{bitmap: b.bitmap &^ bit, children: children}
}

func (b *branch) all(yield func(key string, count int) bool) bool {
	for i := range b.children {
		next := &b.children[i]
		if next.below != nil {
			if !next.below.all(yield) {
				return false
			}
		} else if !yield(next.key, int(next.count)) {
			return false
		}
	}
	return true
}

func replaced(children []child, at int, by child) []child {
	children = slices.Clone(children)
	children[at] = by
	return children
}

func inserted(children []child, at int, one child) []child {
	more := make([]child, len(children)+1)
	copy(more, children[:at])
	more[at] = one
	copy(more[at+1:], children[at:])
	return more
}
