// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

const (
	uniformNodes = 10
	// critical is the 0.999 quantile of the chi-square distribution with
	// uniformNodes-1 = 9 degrees of freedom: a uniform choice exceeds it once in
	// a thousand seeds.
	critical = 27.877
)

// uniformPods is how many are drawn for: enough for the skews below to be found.
var uniformPods = atFullSize(1000, 3000)

// chiSquare returns Pearson's statistic of the counts against all being equal.
func chiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected := float64(total) / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		sum += math.Pow(float64(n)-expected, 2) / expected
	}
	return sum
}

// TestChiSquareTellsSkewFromChance: the measure of the test below must be able
// to fail.
func TestChiSquareTellsSkewFromChance(t *testing.T) {
	// Worked by hand: (10² + 10² + 20²) / 100.
	if got := chiSquare([]int{90, 110, 120, 100, 80}); math.Abs(got-10) > 1e-9 {
		t.Errorf("chiSquare = %v, want 10", got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	histogram := func(draw func() int) []int {
		counts := make([]int, uniformNodes)
		for range uniformPods {
			counts[draw()]++
		}
		return counts
	}
	if got := chiSquare(histogram(func() int { return rng.IntN(uniformNodes) })); got > critical {
		t.Errorf("a uniform draw gives %v, want at most %v", got, critical)
	}
	skewed := map[string]func() int{
		"one node twice as likely": func() int { return rng.IntN(uniformNodes+1) % uniformNodes },
		"the better of two draws":  func() int { return min(rng.IntN(uniformNodes), rng.IntN(uniformNodes)) },
		"never the last node":      func() int { return rng.IntN(uniformNodes - 1) },
	}
	for name, draw := range skewed {
		if got := chiSquare(histogram(draw)); got <= critical {
			t.Errorf("%s gives %v, want more than %v", name, got, critical)
		}
	}
	// Round robin is too even to be random; a bound from below catches it.
	next := 0
	if got := chiSquare(histogram(func() int { next++; return next % uniformNodes })); got > tooEven {
		t.Errorf("round robin gives %v, want at most %v", got, tooEven)
	}
}

// tooEven is the 0.001 quantile of the same distribution: below it the nodes
// were dealt, not drawn.
const tooEven = 1.152

func choiceIsUniform(t *testing.T) {
	c := start(t, localcluster.FakeNodes(uniformNodes))
	run(t, c, "--seed=1")
	createMany(t, c, uniformPods, "pod")
	waitAllBound(t, c, "default", uniformPods)

	pods := list(t, c, "default")
	perNode := byNode(pods)
	counts := slices.Sorted(maps.Values(perNode))
	if len(pods) != uniformPods || len(counts) != uniformNodes {
		t.Fatalf("%d pods on %d nodes, want %d on %d", len(pods), len(counts), uniformPods, uniformNodes)
	}
	got := chiSquare(counts)
	t.Logf("chi-square of %d pods on %d nodes is %.2f (at most %.2f): %v", uniformPods, uniformNodes, got, critical, perNode)
	if got > critical || got < tooEven {
		t.Errorf("chi-square is %.2f, want %.2f to %.2f", got, tooEven, critical)
	}
	requireBoundOnce(t, c, pods)
}
