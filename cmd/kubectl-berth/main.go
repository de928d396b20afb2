// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-berth is a kubectl plugin: with it in PATH, `kubectl berth`
// inspects, simulates and compares scheduling.
//
//	kubectl berth explain pod/NAME
//	kubectl berth simulate -f FILE… [--config PROFILE.yaml…]
//	kubectl berth bench -f WORKLOAD.yaml --schedulers NAME,…
//	kubectl berth devices [NODE…]
//	kubectl berth check [--config PROFILE.yaml]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, newCommand(), arguments(os.Args))
	stop()
	os.Exit(code)
}

// Exit codes, as --help explains them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotPlaced = 3
	// exitNoRoundCounts is a benchmark's: it finished, but no round of some scheduler counts.
	exitNoRoundCounts = 4
	// exitFound is a check's: it finished, and found something.
	exitFound = 5
	// exitInterrupted is a benchmark's, too: a signal ended it, and everything was deleted.
	exitInterrupted = 130
)

// usageError marks an error of the command line.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// errNotPlaced is no failure: the simulation finished, and has reported which pods were not
// placed.
var errNotPlaced = errors.New("not all pods were placed")

// errFound is no failure either: the check was made, and has reported what it found.
var errFound = errors.New("something was found")

// exitCode returns the exit code for what a command returned, and whether the
// error has still to be shown.
func exitCode(err error) (code int, show bool) {
	switch {
	case err == nil:
		return exitOK, false
	case errors.Is(err, errNotPlaced):
		return exitNotPlaced, false
	case errors.Is(err, errFound):
		return exitFound, false
	case errors.Is(err, errInterrupted):
		return exitInterrupted, true
	case errors.Is(err, errNoRoundCounts):
		return exitNoRoundCounts, true
	case errors.As(err, &usageError{}):
		return exitUsage, true
	}
	return exitFailed, true
}

// usagef is a usage error with a text.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}
