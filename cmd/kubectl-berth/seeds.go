// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSeeds bounds a range, so that a typo does not exhaust the memory.
const maxSeeds = 10_000

// parseSeeds parses a comma-separated list of seeds and of ranges a..b, which
// include both ends. Seeds are whole numbers from 0, each at most once.
func parseSeeds(list string) ([]int64, error) {
	var seeds []int64
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "..")
		from, err := parseSeed(first)
		if err != nil {
			return nil, err
		}
		to := from
		if isRange {
			if to, err = parseSeed(last); err != nil {
				return nil, err
			}
		}
		switch {
		case to < from:
			return nil, fmt.Errorf("range %q ends before it begins", part)
		case to-from >= maxSeeds || len(seeds)+int(to-from) >= maxSeeds:
			return nil, fmt.Errorf("%q has more than %d seeds", list, maxSeeds)
		}
		for seed := from; seed <= to; seed++ {
			if slices.Contains(seeds, seed) {
				return nil, fmt.Errorf("%d is given more than once", seed)
			}
			seeds = append(seeds, seed)
		}
	}
	return seeds, nil
}

func parseSeed(text string) (int64, error) {
	seed, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seed < 0 || seed > 1<<62 {
		return 0, fmt.Errorf("%q is not a seed: must be whole numbers from 0, such as 1,2,5 or 42..51", text)
	}
	return seed, nil
}
