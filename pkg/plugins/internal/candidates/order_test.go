// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package candidates

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrder compares points with those of a sorted list, for few and many distinct scores, and
// between additions too.
func TestOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var order Order
		var scores []int64
		most := []int64{2, 90, 300, 1 << 28}[random.IntN(4)]
		for range random.IntN(400) {
			score := random.Int64N(most)
			order.Add(score)
			if at, found := slices.BinarySearch(scores, score); !found {
				scores = slices.Insert(scores, at, score)
			}
			if random.IntN(4) > 0 {
				continue
			}
			at := random.IntN(len(scores))
			if got, want := order.Points(scores[at]), int64(max(0, 100-(len(scores)-1-at))); got != want {
				t.Fatalf("seed %d: %d of %d scores are better than %d, which has %d points, want %d", seed, len(scores)-1-at, len(scores), scores[at], got, want)
			}
			if score := most + random.Int64N(100); order.Points(score) != 0 {
				t.Fatalf("seed %d: score %d, which was not added, has %d points", seed, score, order.Points(score))
			}
		}
	}
}
