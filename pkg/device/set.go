// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"iter"
	"math/bits"
)

// Set is a set of device indexes below MaxDevices.
type Set uint16

// SetOf returns the set of the given indexes. Indexes outside 0..MaxDevices-1
// are left out.
func SetOf(indexes ...int) Set {
	var s Set
	for _, i := range indexes {
		s = s.With(i)
	}
	return s
}

// Has reports whether index i is in the set.
func (s Set) Has(i int) bool {
	return uint(i) < MaxDevices && s>>uint(i)&1 != 0
}

// With returns the set with index i in it.
func (s Set) With(i int) Set {
	if uint(i) >= MaxDevices {
		return s
	}
	return s | 1<<uint(i)
}

// Len returns how many indexes are in the set.
func (s Set) Len() int {
	return bits.OnesCount16(uint16(s))
}

// Lowest returns the smallest index in the set, or -1 if it is empty.
func (s Set) Lowest() int {
	if s == 0 {
		return -1
	}
	return bits.TrailingZeros16(uint16(s))
}

// All yields the indexes in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := s; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros16(uint16(rest))) {
				return
			}
		}
	}
}

// lowest returns the n lowest indexes of the set, all of them if it has fewer.
func (s Set) lowest(n int) Set {
	var out Set
	for ; n > 0 && s != 0; n-- {
		low := s & -s
		out |= low
		s &^= low
	}
	return out
}
