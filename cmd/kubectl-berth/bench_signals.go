// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/pkg/bench/ground"
)

// hurriedCleaning is how long cleaning may take after a second signal.
const hurriedCleaning = 10 * time.Second

// benchSignals turns the first signal into the end of a context, and the second into
// that of the patience with cleaning.
type benchSignals struct {
	// ctx ends with the first signal.
	ctx   context.Context
	hurry chan struct{}
	stop  func()
}

// watchSignals listens for the signals that end a program.
func watchSignals(parent context.Context, status io.Writer) *benchSignals {
	ctx, cancel := context.WithCancelCause(parent)
	s := &benchSignals{ctx: ctx, hurry: make(chan struct{})}
	surviveBrokenPipes()
	received := make(chan os.Signal, 4)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(received, ends...)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-received:
			}
			switch n {
			case 0:
				fmt.Fprintf(status, "\r%s: stopping and cleaning up; once more to wait no longer than %v for it\n", program, hurriedCleaning)
				cancel(errInterrupted)
			case 1:
				close(s.hurry)
			}
		}
	}()
	s.stop = func() {
		signal.Stop(received)
		close(done)
		cancel(nil)
	}
	return s
}

// surviveBrokenPipes turns a write to a pipe that nobody reads any more, as after
// "| head", into an error of that write. Without it, one to standard output or standard
// error ends the process at once, and nobody cleans up.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// end stops listening.
func (s *benchSignals) end() { s.stop() }

// reason is errInterrupted where a signal, the caller's included, is why something
// failed, with what is left in the cluster, if anything is.
func (s *benchSignals) reason(err error) error {
	if err == nil || s.ctx.Err() == nil {
		return err
	}
	if left, ok := errors.AsType[*ground.LeftBehindError](err); ok {
		return withFailure(errInterrupted, left)
	}
	return errInterrupted
}

// cleaning returns a context for cleaning, which ends soon after a second signal.
func (s *benchSignals) cleaning() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	go func() {
		select {
		case <-s.hurry:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(hurriedCleaning)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
