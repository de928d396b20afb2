// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Berth's main job on this machine: a real control plane with
// simulated nodes, three schedulers beside each other, and every pod placed by
// the one that its schedulerName names. It ends with a verdict that is computed
// from what the API server says (package verdict).
//
// It needs the binaries of "make build". "make demo" builds and runs it.
//
// Exit codes: 0 every pod is where its scheduler's rules allow, 1 one is not or
// something failed, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	// The children are started from this goroutine, and the kernel ends them
	// with the thread that started them.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:]))
}

// run is main with its exit code.
func run(args []string) int {
	opts, err := parseOptions(args, os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitUsage
	}
	// Whatever ends the demo, it cleans up first: a closed terminal too, unless it
	// was told to survive that (nohup), and a reader of its output that went away.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// After the first signal, a second one ends this process at once.
	context.AfterFunc(ctx, stop)

	if opts.stop {
		err = stopKept(ctx, opts.keptDir, os.Stdout)
	} else {
		err = newDemo(opts, os.Stdout).run(ctx)
	}
	switch {
	case errors.Is(err, errViolations): // the verdict has said which
		return exitFailed
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitFailed
	}
	return exitOK
}
