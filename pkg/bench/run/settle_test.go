// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tests := []struct {
		name  string
		state state
		want  outcome
	}{
		{"nothing has happened", state{planned: 3}, underway},
		{"creations are under way", state{planned: 3, counts: counts{seen: 3, bound: 3}}, underway},
		{"a pod has not been seen yet", state{planned: 3, created: true, counts: counts{seen: 2, bound: 2}}, underway},
		{"all are bound", state{planned: 3, created: true, counts: counts{seen: 3, bound: 3, last: now}}, allBound},
		{"all are bound, and will be deleted", state{planned: 3, created: true, leaving: 3, counts: counts{seen: 3, bound: 3, last: now}}, allBound},
		{"all are bound, and deleted", state{planned: 3, created: true, counts: counts{seen: 3, bound: 3, gone: 3, last: now}}, allBound},
		{"one was deleted before it was bound", state{planned: 3, created: true, counts: counts{seen: 3, bound: 2, gone: 1, lost: 1, last: now}}, allBound},
		{"one waits, and nobody has looked at it", state{planned: 3, created: true, counts: counts{seen: 3, bound: 2, last: ago(time.Hour)}}, underway},
		{"one of two is refused", state{planned: 3, created: true, counts: counts{seen: 3, bound: 1, refused: 1, last: ago(time.Hour)}}, underway},
		{"all that wait are refused, just now", state{planned: 3, created: true, counts: counts{seen: 3, bound: 1, refused: 2, last: ago(quiet - 1)}}, underway},
		{"all that wait are refused", state{planned: 3, created: true, counts: counts{seen: 3, bound: 1, refused: 2, last: ago(quiet)}}, settled},
		{"all are refused", state{planned: 3, created: true, counts: counts{seen: 3, refused: 3, last: ago(quiet)}}, settled},
		{"a deletion will make room", state{planned: 3, created: true, leaving: 1, counts: counts{seen: 3, bound: 1, refused: 2, last: ago(time.Hour)}}, underway},
		{"a deletion has made room", state{planned: 3, created: true, counts: counts{seen: 3, bound: 1, gone: 1, refused: 2, last: ago(quiet)}}, underway},
		{"a deletion has made room that nobody wants", state{planned: 3, created: true, counts: counts{seen: 3, bound: 1, gone: 1, refused: 2, last: ago(quietWithRetries)}}, settled},
		{"another pod has made a place for one to be spread", state{planned: 3, created: true, spread: true, counts: counts{seen: 3, bound: 1, refused: 2, last: ago(quietWithRetries - 1)}}, underway},
		{"no pod makes a place for those to be spread", state{planned: 3, created: true, spread: true, counts: counts{seen: 3, bound: 1, refused: 2, last: ago(quietWithRetries)}}, settled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.state.outcomeAt(now); got != tt.want {
				t.Errorf("outcome %d, want %d", got, tt.want)
			}
		})
	}
}
