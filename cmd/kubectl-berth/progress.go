// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/component-base/term"
)

// progress draws a bar on a terminal, and nothing anywhere else. It may be used
// concurrently.
type progress struct {
	out   io.Writer // nil if it is no terminal
	total int

	mu    sync.Mutex
	done  int
	shown int // in thousandths
}

func newProgress(out io.Writer, total int) *progress {
	p := &progress{total: total, shown: -1}
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
		const width = 40
		filled := min(width, width*now/1000)
		fmt.Fprintf(p.out, "\r[%s%s] %5.1f %% of %d pods", strings.Repeat("#", filled), strings.Repeat(".", width-filled), float64(now)/10, p.total)
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
