// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "math/rand/v2"

// DrawNode draws one of n nodes, each with the same probability: it is to score
// MaxScore, and all others 0. Drawing once per cycle, instead of a score per
// node, keeps the result independent of the order in which nodes are scored. It
// is -1 if n is not positive.
func (p *Policy) DrawNode(n int) int {
	if n <= 0 {
		return -1
	}
	return draw(p.Rand, n)
}

// chooseRandom chooses one of the candidates, each with the same probability.
func chooseRandom(r *rand.Rand, candidates Set) int {
	if candidates == 0 {
		return -1
	}
	skip := draw(r, candidates.Len())
	for d := range candidates.All() {
		if skip == 0 {
			return d
		}
		skip--
	}
	return -1
}

// draw returns a number below n, which is positive.
func draw(r *rand.Rand, n int) int {
	if r == nil {
		return 0
	}
	return r.IntN(n)
}
