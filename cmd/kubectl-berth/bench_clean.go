// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/bench/environment"
)

// benchCleanOptions are the flags of bench clean.
type benchCleanOptions struct {
	kubeconfig, kubecontext, runID string
	force                          bool
}

func newBenchCleanCommand() *cobra.Command {
	o := &benchCleanOptions{}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what a benchmark that was killed has left in a cluster",
		Long: `Remove namespaces, fake nodes and all that belongs to them which benchmarks have
left in a cluster because they were killed. Other objects are left alone, and so is a
benchmark that is still running, unless --force is given.

Exit codes: 0 nothing is left but what running benchmarks use; 1 it failed, or
--run names a benchmark that is running; 2 the command line is wrong.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.runID != "" {
				if err := environment.ValidateRunID(o.runID); err != nil {
					return usagef("--run: %w", err)
				}
			}
			return benchClean(quietly(cmd.Context()), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the cluster (default: kubectl's)")
	flags.StringVar(&o.kubecontext, "context", "", "the context of the kubeconfig to use")
	flags.StringVar(&o.runID, "run", "", "remove what this run has left (default: what any has)")
	flags.BoolVar(&o.force, "force", false, "take a benchmark that is still running too: it fails")
	return cmd
}

// benchClean removes what is left and says what that was.
func benchClean(ctx context.Context, o *benchCleanOptions, out, status io.Writer) error {
	config, err := benchConfig(o.kubeconfig, o.kubecontext)
	if err != nil {
		return err
	}
	surviveBrokenPipes()
	progress := newProgress(status)
	removed, err := environment.Clean(ctx, config, environment.CleanOptions{RunID: o.runID, Force: o.force, Progress: progress.Step})
	progress.end()
	for _, run := range removed.Alive {
		fmt.Fprintf(out, "left alone: run %s is running (%s); --force takes it too\n", run.ID, run.Holder)
	}
	if len(removed.Runs) == 0 {
		fmt.Fprintf(out, "nothing removed from the cluster at %s\n", config.Host)
	} else {
		fmt.Fprintf(out, "removed from the cluster at %s: runs %s\n", config.Host, strings.Join(removed.Runs, ", "))
	}
	if ctx.Err() != nil {
		return errors.Join(errInterrupted, err)
	}
	if err == nil && o.runID != "" && len(removed.Alive) > 0 {
		return fmt.Errorf("run %s is still running: end it, or give --force", o.runID)
	}
	return err
}
