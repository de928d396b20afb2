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

	"github.com/berth-scheduler/berth/pkg/bench/environment"
)

// errInterruptedAgain is why something is left in a cluster. It is a failure, and
// errInterrupted is none.
var errInterruptedAgain = errors.New("interrupted again")

// benchSignals turns the first signal into the end of a context, and the second into
// that of another.
type benchSignals struct {
	// ctx ends with the first signal, and cleanup with the second.
	ctx, cleanup context.Context
	stop         func()
}

// watchSignals listens for the signals that end a program.
func watchSignals(parent context.Context, status io.Writer) *benchSignals {
	ctx, cancel := context.WithCancelCause(parent)
	cleanup, giveUp := context.WithCancelCause(context.WithoutCancel(parent))
	surviveBrokenPipes()
	received := make(chan os.Signal, 4)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(received, ends...)
	go func() {
		if _, ok := <-received; ok {
			fmt.Fprintf(status, "\r%s: stopping and cleaning up; press Ctrl-C again to leave everything in place\n", program)
			cancel(errInterrupted)
		}
		if _, ok := <-received; ok {
			giveUp(errInterruptedAgain)
		}
	}()
	return &benchSignals{ctx: ctx, cleanup: cleanup, stop: func() {
		signal.Stop(received)
		close(received)
		cancel(nil)
		giveUp(nil)
	}}
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
	if left, ok := errors.AsType[*environment.LeftBehindError](err); ok {
		return withFailure(errInterrupted, left)
	}
	return errInterrupted
}
