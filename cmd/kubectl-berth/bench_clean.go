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
		Short: "Delete what a killed benchmark left in a cluster",
		Long: `Delete the namespaces, fake nodes and related objects that killed benchmarks left in
a cluster. Other objects stay, and so do benchmarks that are still running, unless
--force is set.

Exit codes: 0 only objects of running benchmarks are left; 1 it failed, or --run names
a benchmark that is still running; 2 the command line is wrong.`,
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
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: kubectl's)")
	flags.StringVar(&o.kubecontext, "context", "", "context of the kubeconfig to use")
	flags.StringVar(&o.runID, "run", "", "delete what this run created (default: what any run created)")
	flags.BoolVar(&o.force, "force", false, "also remove benchmarks that are still running; they fail")
	return cmd
}

// benchClean deletes what is left and says what that was.
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
		fmt.Fprintf(out, "skipped: run %s is still running (%s); --force removes it too\n", run.ID, run.Holder)
	}
	if len(removed.Runs) == 0 {
		fmt.Fprintf(out, "nothing to delete in the cluster at %s\n", config.Host)
	} else {
		fmt.Fprintf(out, "deleted from the cluster at %s: runs %s\n", config.Host, strings.Join(removed.Runs, ", "))
	}
	if ctx.Err() != nil {
		return errors.Join(errInterrupted, err)
	}
	if err == nil && o.runID != "" && len(removed.Alive) > 0 {
		return fmt.Errorf("run %s is still running: stop it, or use --force", o.runID)
	}
	return err
}
