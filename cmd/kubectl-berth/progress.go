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

	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
)

// barWidth is the number of signs of a bar; lineWidth is what all terminals have.
const (
	barWidth  = 20
	lineWidth = 80
)

// progress shows what is being done: in one line on a terminal, which it rewrites, and in
// a line for each step elsewhere. It may be used concurrently.
type progress struct {
	out      io.Writer
	terminal bool

	mu sync.Mutex
	// step is what is being done, shown the bar beside it, in thousandths, and done how many
	// pods were counted.
	step        string
	shown, done int
	// begin is when the first round began, and left how long the rest takes.
	begin time.Time
	left  string
}

var _ benchrun.Progress = &progress{}

func newProgress(out io.Writer) *progress {
	_, _, err := term.TerminalSize(out)
	return &progress{out: out, terminal: err == nil, shown: -1}
}

// Step implements run.Progress.
func (p *progress) Step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.step {
		return
	}
	p.step, p.shown = text, -1
	if p.terminal {
		p.line(text)
	} else {
		fmt.Fprintf(p.out, "%s: %s\n", program, text)
	}
}

// Rounds implements run.Progress.
func (p *progress) Rounds(done, planned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.estimate(done, planned)
	if !p.terminal && p.left != "" {
		fmt.Fprintf(p.out, "%s: %d of %d rounds, %s\n", program, done, planned, p.left)
	}
}

// Pods implements run.Progress.
func (p *progress) Pods(done, planned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(done, planned)
}

// counter returns a function that counts pods that are done.
func (p *progress) counter(planned int) func(n int) {
	p.estimate(0, planned)
	return func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done += n
		p.estimate(p.done, planned)
		p.draw(p.done, planned)
	}
}

func (p *progress) estimate(done, planned int) {
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	p.left = remaining(time.Since(p.begin), done, planned)
}

// draw draws the bar, if it has changed.
func (p *progress) draw(done, planned int) {
	if !p.terminal || planned == 0 || 1000*done/planned == p.shown {
		return
	}
	p.shown = 1000 * done / planned
	filled := max(0, min(barWidth, barWidth*done/planned))
	parts := []string{fmt.Sprintf("[%s%s] %d of %d pods", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), done, planned)}
	for _, part := range []string{p.left, p.step} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	p.line(strings.Join(parts, ", "))
}

// line replaces the line, and cuts one that a terminal would break: on the last column some
// wrap.
func (p *progress) line(text string) {
	if runes := []rune(text); len(runes) >= lineWidth {
		text = string(runes[:lineWidth-2]) + "…"
	}
	fmt.Fprintf(p.out, "\r\033[K%s", text)
}

// end removes the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		p.line("")
	}
}

// remaining says how long the rest takes at the pace so far; empty if that is unknown.
func remaining(elapsed time.Duration, done, total int) string {
	if done <= 0 || done >= total || elapsed < time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
	return "about " + left.Round(time.Second).String() + " left"
}
