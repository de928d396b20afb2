// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestProgressFits: no line is as wide as a terminal, whatever is being done, and each
// says how long the rest takes.
func TestProgressFits(t *testing.T) {
	var out bytes.Buffer
	simulated := &progress{out: &out, terminal: true, shown: -1, begin: time.Now().Add(-time.Hour)}
	simulated.counter(2_000_000)(1_000_000)
	measured := &progress{out: &out, terminal: true, begin: time.Now().Add(-time.Hour)}
	measured.Rounds(5, 20)
	measured.Step("steady round 10 of 10, a-scheduler-with-quite-a-long-name at 1234 pods/s: preparing")
	measured.Pods(100_000, 200_000)
	lines := strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\r' })
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3: %q", len(lines), lines)
	}
	for _, line := range lines {
		line = strings.TrimPrefix(line, "\033[K")
		if width := len([]rune(line)); width >= lineWidth {
			t.Errorf("%d columns: %s", width, line)
		}
	}
	if !strings.Contains(lines[0], "about 1h0m") || !strings.Contains(lines[2], "about 3h0m") {
		t.Errorf("want about 1 and 3 hours left: %q", lines)
	}
}

// TestRemaining: where nothing can be told, nothing is.
func TestRemaining(t *testing.T) {
	for _, tt := range []struct {
		elapsed     time.Duration
		done, total int
		want        string
	}{
		{time.Minute, 0, 10, ""},
		{time.Minute, 10, 10, ""},
		{time.Millisecond, 1, 10, ""},
		{time.Minute, 1, 3, "about 2m0s left"},
	} {
		if got := remaining(tt.elapsed, tt.done, tt.total); got != tt.want {
			t.Errorf("remaining(%v, %d, %d) = %q, want %q", tt.elapsed, tt.done, tt.total, got, tt.want)
		}
	}
}
