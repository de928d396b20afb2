// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// attempt is one attempt of a scheduler to place a pod, as its log tells it.
type attempt struct {
	pod string // namespace/name
	// scores are the weighted scores by node and plugin, and totals their sums. They
	// are empty if less than two nodes were feasible.
	scores map[string]map[string]int64
	totals map[string]int64
}

// verboseLog makes a scheduler log its attempts and the scores of each.
const verboseLog = "--vmodule=schedule_one=10"

var (
	attemptLine = regexp.MustCompile(`"Attempting to schedule pod".* pod="([^"]+)"`)
	scoreLine   = regexp.MustCompile(`"Plugin scored node for pod".* plugin="([^"]+)" node="([^"]+)" score=(\d+)`)
	totalLine   = regexp.MustCompile(`"Calculated node's final score for pod".* node="([^"]+)" score=(\d+)`)
)

// readAttempts reads the log of a scheduler. One goroutine writes these lines, so
// scores belong to the attempt before them.
func readAttempts(t *testing.T, log string) []attempt {
	t.Helper()
	var attempts []attempt
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("score %q: %v", text, err)
		}
		return n
	}
	for line := range strings.Lines(log) {
		if m := attemptLine.FindStringSubmatch(line); m != nil {
			attempts = append(attempts, attempt{pod: m[1], scores: map[string]map[string]int64{}, totals: map[string]int64{}})
			continue
		}
		score, total := scoreLine.FindStringSubmatch(line), totalLine.FindStringSubmatch(line)
		if score == nil && total == nil {
			continue
		}
		if len(attempts) == 0 {
			t.Fatalf("A score before any attempt: %s", line)
		}
		last := &attempts[len(attempts)-1]
		if total != nil {
			last.totals[total[1]] = number(total[2])
			continue
		}
		if last.scores[score[2]] == nil {
			last.scores[score[2]] = map[string]int64{}
		}
		last.scores[score[2]][score[1]] = number(score[3])
	}
	return attempts
}
