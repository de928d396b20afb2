// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

// Typo is the greatest distance of two names of which one may be the other with a
// typo. A longer list of edits makes another word.
const Typo = 2

// maxLength bounds what a comparison costs: no name that is compared is longer.
const maxLength = 64

// Distance returns how many letters must be inserted, removed, replaced or swapped
// with their neighbour to make b of a, or limit+1 if more than limit. It compares
// bytes. Names shorter than four bytes, and much longer ones than any of ours, are
// no typos of others.
func Distance(a, b string, limit int) int {
	if a == b {
		return 0
	}
	if min(len(a), len(b)) < 4 || max(len(a), len(b)) > maxLength || max(len(a)-len(b), len(b)-len(a)) > limit {
		return limit + 1
	}
	// Three rows of the table of distances between beginnings.
	var rows [3][maxLength + 1]int
	before, last, next := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return min(last[len(b)], limit+1)
}

// Nearest returns the candidate that name is with a typo, or "". Of several at the
// same distance it is the first.
func Nearest(name string, candidates []string) string {
	best, distance := "", Typo+1
	for _, candidate := range candidates {
		if d := Distance(name, candidate, Typo); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}
