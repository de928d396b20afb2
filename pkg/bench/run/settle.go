// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import "time"

const (
	// quiet is how long nothing must have happened before a queue in which every pod is
	// refused counts as settled: longer than the API server needs to tell everybody of
	// the last binding.
	quiet = 5 * time.Second
	// quietWithRetries is the same where a refused pod may find a node later: where pods
	// were deleted, which makes room, or are to be spread evenly, for which every other
	// pod may make one. A scheduler tries a refused pod again after its back-off, up to
	// 10 s for kube-scheduler.
	quietWithRetries = 15 * time.Second
	// settlePoll is how often that is looked at.
	settlePoll = 50 * time.Millisecond
)

// state is how far a round has come.
type state struct {
	counts
	// planned pods are to be created; created is whether all creations have been
	// answered.
	planned int
	created bool
	// leaving pods are bound and will be deleted within the round.
	leaving int
	// spread is whether some pods must be spread evenly.
	spread bool
}

// outcome is whether a round goes on.
type outcome int

const (
	// underway: something may still happen.
	underway outcome = iota
	// allBound: every pod has got a node, or is gone.
	allBound
	// settled: every pod without a node is refused, and nothing moves.
	settled
)

// outcomeAt says whether a round is over at a time.
func (s *state) outcomeAt(now time.Time) outcome {
	waiting := s.planned - s.bound - s.lost
	switch {
	case !s.created || s.seen < s.planned:
		return underway
	case waiting == 0:
		return allBound
	case s.refused < waiting || s.leaving > 0:
		return underway
	}
	needed := quiet
	if s.gone > 0 || s.spread {
		needed = quietWithRetries
	}
	if now.Sub(s.last) < needed {
		return underway
	}
	return settled
}
