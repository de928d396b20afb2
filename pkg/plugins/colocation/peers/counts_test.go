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
				for _, got := range []map[string]int{maps.Collect(s.level.All), maps.Collect(s.level.Sample(len(s.want), i))} {
					if diff := cmp.Diff(s.want, got); diff != "" {
						t.Errorf("snapshot %d has changed since (-want,+got):\n%s", i, diff)
					}
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

// TestEverySampleDiffers: every value has its turn, however many there are.
func TestEverySampleDiffers(t *testing.T) {
	var c counts
	for i := range 700 {
		c.add(fmt.Sprintf("node-%d", i), 1)
	}
	seen := map[string]int{}
	for number := range 20 {
		sample := maps.Collect(c.Sample(256, number))
		if len(sample) != 256 {
			t.Errorf("sample %d has %d values", number, len(sample))
		}
		maps.Copy(seen, sample)
	}
	if len(seen) != 700 {
		t.Errorf("20 samples had %d of 700 values", len(seen))
	}
}
