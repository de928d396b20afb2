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

// TestCountsHistories compares counts with a map through random histories, and
// every snapshot with what it was when it was taken.
func TestCountsHistories(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var c counts
			want := map[string]int{}
			type snapshot struct {
				level Level
				want  map[string]int
			}
			var kept []snapshot
			for step := range 5000 {
				key := fmt.Sprintf("key-%d", rng.IntN(400))
				delta := rng.IntN(5) - 2
				if rng.IntN(3) == 0 {
					delta = -want[key] // make it go away
				}
				c.add(key, delta)
				addTo(want, key, delta)
				if c.Len() != len(want) || c.Within(key) != want[key] {
					t.Fatalf("step %d: %s: want %d of %d, got %d of %d", step, key, want[key], len(want), c.Within(key), c.Len())
				}
				if rng.IntN(250) == 0 {
					kept = append(kept, snapshot{level: c.snapshot(), want: maps.Clone(want)})
				}
			}
			for i, s := range kept {
				if diff := cmp.Diff(s.want, maps.Collect(s.level.All)); diff != "" {
					t.Errorf("snapshot %d has changed since (-want,+got):\n%s", i, diff)
				}
			}
			for key := range want {
				c.add(key, -want[key])
			}
			if c != (counts{}) {
				t.Errorf("nothing is left, but %v", maps.Collect(c.All))
			}
		})
	}
}

// TestSince compares what changed between two moments of a history with two maps, also
// where the two have nothing in common.
func TestSince(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type moment struct {
		level Level
		want  map[string]int
	}
	var moments []moment
	for range 2 {
		moments = append(moments, moment{want: map[string]int{}})
		var c counts
		want := map[string]int{}
		for step := range 400 {
			key := fmt.Sprintf("key-%d", rng.IntN(300))
			more := rng.IntN(3)
			if rng.IntN(4) == 0 {
				more = -want[key]
			}
			c.add(key, more)
			addTo(want, key, more)
			if step%40 == 0 {
				moments = append(moments, moment{c.snapshot(), maps.Clone(want)})
			}
		}
	}
	for i, before := range moments {
		for k, now := range moments {
			want := map[string]int{}
			for key := range before.want {
				if now.want[key] != before.want[key] {
					want[key] = now.want[key]
				}
			}
			for key, n := range now.want {
				if n != before.want[key] {
					want[key] = n
				}
			}
			if diff := cmp.Diff(want, maps.Collect(now.level.Since(before.level))); diff != "" {
				t.Fatalf("moment %d since moment %d (-want,+got):\n%s", k, i, diff)
			}
		}
	}
}

// What two Levels have in common is not looked at: one peer more is one part of many.
func TestSinceLooksAtWhatChanged(t *testing.T) {
	var c counts
	for i := range 10_000 {
		c.add(fmt.Sprintf("node-%d", i), 1)
	}
	before := c.snapshot()
	c.add("node-7", 1)
	now, shared := c.snapshot(), 0
	for i := range shardCount {
		if isSameMap(now.shard(i), before.shard(i)) {
			shared++
		}
	}
	if shared != shardCount-1 {
		t.Errorf("%d of %d shards are shared after one change", shared, shardCount)
	}
}
