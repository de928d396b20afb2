// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interval

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestOfRatios(t *testing.T) {
	// Logarithms -a, 0, a: the mean is 1, the standard deviation a, and half the
	// interval 4.302653 a / sqrt(3).
	a := math.Log(1.1)
	got := OfRatios([]float64{1 / 1.1, 1, 1.1})
	want := Interval{Mean: 1, Low: math.Exp(-4.302653 * a / math.Sqrt(3)), High: math.Exp(4.302653 * a / math.Sqrt(3))}
	for _, pair := range [][2]float64{{got.Mean, want.Mean}, {got.Low, want.Low}, {got.High, want.High}} {
		if math.Abs(pair[0]-pair[1]) > 1e-6 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := OfRatios([]float64{2, 2}); math.Abs(got.Mean-2) > 1e-9 || math.Abs(got.Low-2) > 1e-9 || math.Abs(got.High-2) > 1e-9 {
		t.Errorf("got %+v of two equal ratios", got)
	}
	if got := OfRatios([]float64{0.5}); got.Mean != 0.5 || got.Low != 0 || got.High != 0 {
		t.Errorf("got %+v of one ratio: nothing is known of its spread", got)
	}
}

// The interval holds the true ratio as often as it says, whatever the number of pairs.
func TestCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	const trials = 5000
	for _, n := range []int{2, 3, 6, 10, 40} {
		held := 0
		for range trials {
			ratios := make([]float64, n)
			for i := range ratios {
				ratios[i] = 0.97 * math.Exp(0.2*random.NormFloat64())
			}
			if got := OfRatios(ratios); got.Low <= 0.97 && 0.97 <= got.High {
				held++
			}
		}
		if share := float64(held) / trials; math.Abs(share-0.95) > 0.01 {
			t.Errorf("%d pairs: the interval held the true ratio in %.1f %% of the trials, want 95 %%", n, 100*share)
		}
	}
}
