// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"

	benchrun "github.com/berth-scheduler/berth/pkg/bench/run"
)

// quietly gives what runs in the context a logger that says nothing: clients log what
// they try again, and what fails is returned.
func quietly(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// benchProgress shows what is being done: in one line on a terminal, which it
// rewrites, and in a line for each step anywhere else.
type benchProgress struct {
	out      io.Writer
	terminal bool

	mu sync.Mutex
	// step is what is being done, shown the bar beside it, in thousandths.
	step  string
	shown int
	// begin is when the first round began, and left what is left of the rounds.
	begin time.Time
	left  string
}

var _ benchrun.Progress = &benchProgress{}

func newBenchProgress(out io.Writer) *benchProgress {
	_, _, err := term.TerminalSize(out)
	return &benchProgress{out: out, terminal: err == nil}
}

// Step implements run.Progress.
func (p *benchProgress) Step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == p.step {
		return
	}
	p.step, p.shown = text, -1
	if p.terminal {
		fmt.Fprintf(p.out, "\r\033[K%s", fit(text))
	} else {
		fmt.Fprintf(p.out, "%s: %s\n", program, text)
	}
}

// Rounds implements run.Progress.
func (p *benchProgress) Rounds(done, planned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	p.left = remaining(time.Since(p.begin), done, planned)
	if !p.terminal && p.left != "" {
		fmt.Fprintf(p.out, "%s: %d of %d rounds, %s\n", program, done, planned, p.left)
	}
}

// Pods implements run.Progress.
func (p *benchProgress) Pods(done, planned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal || planned == 0 {
		return
	}
	if now := 1000 * done / planned; now != p.shown {
		p.shown = now
		line := bar(done, planned)
		if p.left != "" {
			line += " " + p.left + ","
		}
		fmt.Fprintf(p.out, "\r\033[K%s", fit(fmt.Sprintf("%s %d of %d pods, %s", line, done, planned, p.step)))
	}
}

// end removes the line.
func (p *benchProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
