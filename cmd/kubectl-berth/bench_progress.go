// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

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
		fmt.Fprintf(p.out, "\r\033[K%s", text)
	} else {
		fmt.Fprintf(p.out, "%s: %s\n", program, text)
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
		const width = 30
		filled := max(0, min(width, width*now/1000))
		fmt.Fprintf(p.out, "\r\033[K[%s%s] %d of %d pods, %s", strings.Repeat("#", filled), strings.Repeat(".", width-filled), done, planned, p.step)
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
