// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command random-scheduler binds the pods of its schedulerName to random nodes.
// See pkg/randombinder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
)

func main() { os.Exit(run()) }

// run is main with deferred calls that run before the process exits.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := newCommand()
	cmd.SetContext(ctx)
	if err := cli.RunNoErrOutput(cmd); err != nil {
		fmt.Fprintf(os.Stderr, "random-scheduler: %v\n", err)
		return 1
	}
	return 0
}
