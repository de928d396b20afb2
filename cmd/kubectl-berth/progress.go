// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/term"
)

// progress draws a bar on a terminal, and nothing anywhere else. It may be used
// concurrently.
type progress struct {
	out   io.Writer // nil if it is no terminal
	total int

	mu    sync.Mutex
	begin time.Time
	done  int
	shown int // in thousandths
}

// barWidth is the number of signs of a bar; lineWidth is what all terminals have.
const (
	barWidth  = 20
	lineWidth = 80
)

// bar draws how much is done.
func bar(done, total int) string {
	filled := max(0, min(barWidth, barWidth*done/max(1, total)))
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled) + "]"
}

// remaining says how long the rest takes if it goes on as before; empty if that cannot
// be told yet.
func remaining(elapsed time.Duration, done, total int) string {
	if done <= 0 || done >= total || elapsed < time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
	return "about " + left.Round(time.Second).String() + " left"
}

// fit cuts a line that a terminal would break; on the last column some wrap.
func fit(line string) string {
	if runes := []rune(line); len(runes) >= lineWidth {
		return string(runes[:lineWidth-2]) + "…"
	}
	return line
}

func newProgress(out io.Writer, total int) *progress {
	p := &progress{total: total, shown: -1, begin: time.Now()}
	if _, _, err := term.TerminalSize(out); err == nil {
		p.out = out
	}
	return p
}

// add counts what is done.
func (p *progress) add(n int) {
	if p.out == nil || p.total == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if now := 1000 * p.done / p.total; now != p.shown {
		p.shown = now
		line := fmt.Sprintf("%s %5.1f %% of %d pods", bar(p.done, p.total), float64(now)/10, p.total)
		if left := remaining(time.Since(p.begin), p.done, p.total); left != "" {
			line += ", " + left
		}
		fmt.Fprintf(p.out, "\r\033[K%s", fit(line))
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.out, "\r\033[K")
}
