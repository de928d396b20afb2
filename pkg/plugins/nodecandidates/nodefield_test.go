// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// written is a plugin that ranks the nodes so.
func written(ordinal bool, scores ...int32) candidates.Written {
	return candidates.Written{Plugin: "p", Rank: func() *candidates.Ranking { return &candidates.Ranking{Scores: scores, Ordinal: ordinal} }}
}

func all(int) bool { return true }

func TestWinners(t *testing.T) {
	const unfit = candidates.Unfit
	type weighted struct {
		candidates.Written
		weight int64
	}
	tests := []struct {
		name     string
		rankings []weighted
		// others is what all other plugins can make up for.
		others int64
		// failing are the nodes that other plugins' filters reject.
		failing []int
		// want is best and then the others; nil for none.
		want        []int32
		wantLeftOut bool
	}{
		{name: "an order that decides: the best and its equals", rankings: []weighted{{written(true, 7, 9, unfit, 9, 8), 2000}}, others: 1200, want: []int32{1, 3}, wantLeftOut: true},
		{name: "an order that does not decide", rankings: []weighted{{written(true, 7, 9, unfit, 9, 8), 1000}}, others: 1200, want: []int32{1, 0, 3, 4}},
		{name: "the best is tried in vain, and so its equal", rankings: []weighted{{written(true, 7, 9, unfit, 9, 8), 2000}}, others: 1200, failing: []int{1, 3}, want: []int32{4}, wantLeftOut: true},
		{name: "an equal one that fails is offered, and not tried", rankings: []weighted{{written(true, 7, 9, unfit, 9, 8), 2000}}, others: 1200, failing: []int{3}, want: []int32{1, 3}, wantLeftOut: true},
		{name: "amounts within what the others can make up for", rankings: []weighted{{written(false, 40, 100, 99, 98, 97), 500}}, others: 1000, want: []int32{1, 2, 3}, wantLeftOut: true},
		{name: "amounts with a weight of 0", rankings: []weighted{{written(false, 40, 100, unfit), 0}}, others: 1000, want: []int32{0, 1}},
		{name: "none fits", rankings: []weighted{{written(true, 1, 2), 2000}}, failing: []int{0, 1}},
		{name: "no node passes", rankings: []weighted{{written(true, unfit, unfit), 2000}}},
		{name: "a ranking of other nodes", rankings: []weighted{{written(true, 1), 2000}, {written(false, 1, 0), 1}}, want: []int32{0}, wantLeftOut: true},
		{
			name: "two that disagree", rankings: []weighted{{written(true, 5, 4, 3, 2), 2000}, {written(false, 0, 2, 100, 0), 2000}}, others: 1200,
			// Node 2 leads by 98 and 100 amounts, and is at most 2 behind in the order.
			want: []int32{2}, wantLeftOut: true,
		},
		{
			name: "two that nearly agree", rankings: []weighted{{written(true, 5, 4, 3, 2), 2000}, {written(false, 9, 10, 8, 0), 2000}}, others: 2000,
			// Node 1 is 1 behind node 0 in the order, and 1 ahead in amounts; node 2 is 1 behind both.
			want: []int32{0, 1}, wantLeftOut: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &nodeField{}
			nodes := 0
			for _, r := range tt.rankings {
				nodes = max(nodes, len(r.Rank().Scores))
			}
			f.reset(nodes)
			for _, r := range tt.rankings {
				f.add(r.Written, r.weight)
			}
			f.others = tt.others
			var got []int32
			var leftOut bool
			if f.anyFits() {
				if best := f.best(0, all, func(i int) bool { return !slices.Contains(tt.failing, i) }); best >= 0 {
					got, leftOut = f.winners(best, 0, all)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || leftOut != tt.wantLeftOut {
				t.Errorf("winners (-want,+got):\n%s left out: %v, want %v", diff, leftOut, tt.wantLeftOut)
			}
		})
	}
}

// TestNoWinnerIsLeftOut draws rankings, weights, filters and the points of other plugins at
// random, and computes what the framework would choose among all nodes that fit.
func TestNoWinnerIsLeftOut(t *testing.T) {
	t.Parallel()
	f := &nodeField{}
	narrowings := 0
	for seed := range uint64(20_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		nodes := 1 + random.IntN(250)
		others := random.Int64N(20)
		f.reset(nodes)
		var rankings []candidates.Ranking
		var weights []int64
		for range 1 + random.IntN(3) {
			r := randomRanking(random, nodes)
			weight := random.Int64N(40)
			rankings, weights = append(rankings, r), append(weights, weight)
			f.add(candidates.Written{Rank: func() *candidates.Ranking { return &r }}, weight)
		}
		f.others = fwk.MaxScore * others
		failing := random.IntN(90)
		fits := make([]bool, nodes)
		allowed := make([]bool, nodes)
		for i := range nodes {
			allowed[i] = random.IntN(100) >= failing/2
			fits[i] = allowed[i] && random.IntN(100) >= failing
		}
		offset := random.IntN(2 * nodes)
		if !f.anyFits() {
			continue
		}
		best := f.best(offset, func(i int) bool { return allowed[i] }, func(i int) bool { return fits[i] })
		feasible := feasibleNodes(rankings, fits)
		if best < 0 {
			if len(feasible) > 0 {
				t.Fatalf("seed %d: no best, and nodes %v fit", seed, feasible)
			}
			continue
		}
		winners, leftOut := f.winners(best, offset, func(i int) bool { return allowed[i] })
		if int(winners[0]) != best || !fits[best] {
			t.Fatalf("seed %d: node %d is the first of the winners, want %d, which fits", seed, winners[0], best)
		}
		if leftOut {
			narrowings++
		}
		for range 5 {
			totals := make(map[int]int64, len(feasible))
			for _, i := range feasible {
				totals[i] = random.Int64N(fwk.MaxScore*others + 1)
			}
			for k, r := range rankings {
				for i, points := range pointsAmong(r, feasible) {
					totals[i] += weights[k] * points
				}
			}
			most := slices.MaxFunc(feasible, func(a, b int) int { return int(totals[a] - totals[b]) })
			for _, i := range feasible {
				if totals[i] == totals[most] && !slices.Contains(winners, int32(i)) {
					t.Fatalf("seed %d: node %d would have won with %d, and is not among %v (best %d has %d)", seed, i, totals[i], winners, best, totals[best])
				}
			}
		}
	}
	if narrowings < 1000 {
		t.Errorf("only %d of the draws left out a node", narrowings)
	}
}

func randomRanking(random *rand.Rand, nodes int) candidates.Ranking {
	r := candidates.Ranking{Scores: make([]int32, nodes), Ordinal: random.IntN(2) == 0}
	most := []int32{2, 5, 101, 101}[random.IntN(4)]
	if r.Ordinal && random.IntN(2) == 0 {
		most = 1 << 28
	}
	unfit := random.IntN(100)
	for i := range r.Scores {
		r.Scores[i] = random.Int32N(most)
		if random.IntN(100) < unfit {
			r.Scores[i] = candidates.Unfit
		}
	}
	return r
}

func feasibleNodes(rankings []candidates.Ranking, fits []bool) []int {
	var feasible []int
	for i := range fits {
		if fits[i] && !slices.ContainsFunc(rankings, func(r candidates.Ranking) bool { return r.Scores[i] == candidates.Unfit }) {
			feasible = append(feasible, i)
		}
	}
	return feasible
}

// pointsAmong returns what NormalizeScore makes of the scores of some nodes.
func pointsAmong(r candidates.Ranking, nodes []int) map[int]int64 {
	points := map[int]int64{}
	var distinct []int32
	for _, i := range nodes {
		distinct = append(distinct, r.Scores[i])
	}
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	for _, i := range nodes {
		points[i] = int64(r.Scores[i])
		if r.Ordinal {
			at, _ := slices.BinarySearch(distinct, r.Scores[i])
			points[i] = max(0, fwk.MaxScore-int64(len(distinct)-1-at))
		}
	}
	return points
}

func TestBestOf(t *testing.T) {
	f := &nodeField{scores: []int64{5, 9, 7, 9, 7, 9, 7}}
	for name, tt := range map[string]struct{ winners, want []int32 }{
		"the best that fits, then its equals":                    {[]int32{3, 5, 1}, []int32{3, 5}},
		"better ones before others, and of equal ones the first": {[]int32{2, 6, 0, 4, 5}, []int32{2, 5}},
	} {
		if diff := cmp.Diff(tt.want, f.bestOf(tt.winners, 2)); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", name, diff)
		}
	}
}

func TestFromOffset(t *testing.T) {
	for offset, want := range map[int]string{0: "[1 4 9]", 1: "[1 4 9]", 2: "[4 9 1]", 9: "[9 1 4]", 10: "[1 4 9]"} {
		if got := fmt.Sprint(fromOffset([]int32{1, 4, 9}, offset)); got != want {
			t.Errorf("from %d on: %s, want %s", offset, got, want)
		}
	}
}

// BenchmarkWinners is the part of PreFilter that grows with the number of nodes.
func BenchmarkWinners(b *testing.B) {
	for _, nodes := range []int{1000, 5000, 15000} {
		for _, plugins := range []int{1, 2} {
			b.Run(fmt.Sprintf("nodes=%d/plugins=%d", nodes, plugins), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, 1))
				var ranked []candidates.Written
				for k := range plugins {
					scores := make([]int32, nodes)
					for i := range scores {
						scores[i] = random.Int32N(100)
					}
					ranked = append(ranked, written(k == 0, scores...))
				}
				f := &nodeField{}
				b.ReportAllocs()
				for b.Loop() {
					f.reset(nodes)
					for _, w := range ranked {
						f.add(w, 2000)
					}
					f.others = 1200
					best := f.best(0, all, all)
					if winners, leftOut := f.winners(best, 0, all); len(winners) == 0 || !leftOut {
						b.Fatal(len(winners))
					}
				}
			})
		}
	}
}
