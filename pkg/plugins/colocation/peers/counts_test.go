// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func contents(c counts) map[string]int {
	return maps.Collect(c.all)
}

// TestCountsHistories compares counts with a map through random histories, and
// every version with what it was when it was made.
func TestCountsHistories(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var c counts
			want := map[string]int{}
			type version struct {
				counts counts
				want   map[string]int
			}
			var kept []version
			for step := range 5000 {
				key := fmt.Sprintf("key-%d", rng.IntN(400))
				delta := rng.IntN(5) - 2
				if rng.IntN(3) == 0 {
					delta = -want[key] // make it go away
				}
				c = c.add(key, delta)
				if want[key] += delta; want[key] == 0 {
					delete(want, key)
				}
				if c.len() != len(want) {
					t.Fatalf("step %d: len: want %d, got %d", step, len(want), c.len())
				}
				if got := c.get(key); got != want[key] {
					t.Fatalf("step %d: %s: want %d, got %d", step, key, want[key], got)
				}
				if step%250 == 0 {
					kept = append(kept, version{counts: c, want: maps.Clone(want)})
				}
			}
			for i, v := range kept {
				if diff := cmp.Diff(v.counts, newCounts(v.want), cmp.AllowUnexported(counts{}, branch{}, child{})); diff != "" {
					t.Errorf("version %d made at once differs (-add,+newCounts):\n%s", i, diff)
				}
				if diff := cmp.Diff(v.want, contents(v.counts)); diff != "" {
					t.Errorf("version %d has changed since (-want,+got):\n%s", i, diff)
				}
			}
			for key := range want {
				c = c.add(key, -want[key])
			}
			if c != (counts{}) {
				t.Errorf("nothing is left, but %v", contents(c))
			}
		})
	}
}

// TestCountsCollisions gives keys hashes that agree in many bits, or in all.
func TestCountsCollisions(t *testing.T) {
	hashes := map[string]uint64{
		"same-1": 7, "same-2": 7, "same-3": 7,
		"top-1": 7 | 1<<63, "top-2": 7 | 1<<62, "middle": 7 | 1<<30, "other": 8,
	}
	keys := []string{"same-1", "same-2", "same-3", "top-1", "top-2", "middle", "other"}
	rng := rand.New(rand.NewPCG(1, 1))
	root := &branch{}
	want := map[string]int{}
	for step := range 5000 {
		key := keys[rng.IntN(len(keys))]
		delta := rng.IntN(3) - 1
		if delta == 0 {
			delta = -want[key]
		}
		if delta == 0 {
			continue
		}
		size := len(want)
		var grown int
		root, grown = root.add(0, hashes[key], key, int32(delta))
		if want[key] += delta; want[key] == 0 {
			delete(want, key)
		}
		if grown != len(want)-size {
			t.Fatalf("step %d: want %d keys more, got %d", step, len(want)-size, grown)
		}
		got := map[string]int{}
		root.all(func(key string, count int) bool {
			got[key] = count
			return true
		})
		atOnce := &branch{}
		for key, count := range want {
			atOnce.insert(0, child{key: key, hash: hashes[key], count: int32(count)})
		}
		for _, key := range keys {
			if got := int(atOnce.get(hashes[key], key)); got != want[key] {
				t.Fatalf("step %d: %s at once: want %d, got %d", step, key, want[key], got)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("step %d (-want,+got):\n%s", step, diff)
		}
		for _, key := range keys {
			if got := int(root.get(hashes[key], key)); got != want[key] {
				t.Fatalf("step %d: %s: want %d, got %d", step, key, want[key], got)
			}
		}
	}
}

// TestCountsAreCanonical: the same contents have the same depth whatever was there
// before, so that churn does not wear a trie out.
func TestCountsAreCanonical(t *testing.T) {
	var fresh, churned counts
	for i := range 1000 {
		churned = churned.add(fmt.Sprintf("gone-%d", i), 1)
	}
	for i := range 10 {
		fresh = fresh.add(fmt.Sprintf("key-%d", i), 1)
		churned = churned.add(fmt.Sprintf("key-%d", i), 1)
	}
	for i := range 1000 {
		churned = churned.add(fmt.Sprintf("gone-%d", i), -1)
	}
	if diff := cmp.Diff(fresh, churned, cmp.AllowUnexported(counts{}, branch{}, child{})); diff != "" {
		t.Errorf("(-fresh,+churned):\n%s", diff)
	}
}

func TestCountsStopWhenToldTo(t *testing.T) {
	var c counts
	for i := range 100 {
		c = c.add(fmt.Sprintf("key-%d", i), 1)
	}
	seen := 0
	for range c.all {
		if seen++; seen == 7 {
			break
		}
	}
	if seen != 7 {
		t.Errorf("want 7 keys, got %d", seen)
	}
}
