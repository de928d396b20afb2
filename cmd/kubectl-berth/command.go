// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/version"
)

// program is the name of the binary, and invocation what users type.
const (
	program    = "kubectl-berth"
	invocation = "kubectl berth"
)

// run executes a command line and returns its exit code. Errors are written to the
// command's error stream. A panic is a failure: Go's own exit code would be that of a wrong
// command line here.
func run(ctx context.Context, cmd *cobra.Command, args []string) (code int) {
	defer func() {
		if fault := recover(); fault != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: internal error, please report it: %v\n\n%s", program, fault, debug.Stack())
			code = exitFailed
		}
	}()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	var show bool
	code, show = exitCode(err)
	if show {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", program, err)
	}
	return code
}

// newCommand returns the whole command line.
func newCommand() *cobra.Command {
	var showVersion bool
	cmd := &cobra.Command{
		Use:   program,
		Short: "Inspect, simulate and compare scheduling",
		// kubectl finds the binary by its name, and users type a space.
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: invocation},
		SilenceUsage:  true,
		SilenceErrors: true, // run prints the error, once
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	// A flag of our own, not cobra's: packages that are linked in register a global
	// --version, which cobra would find in place of the one that it adds.
	cmd.PersistentFlags().BoolVar(&showVersion, "version", false, "print Berth's version and that of the Kubernetes compiled in, and exit")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: see %s --help", err, cmd.CommandPath())
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newSimulateCommand(), newBenchCommand())
	cmd.AddCommand(newDevicesCommand(), newCheckCommand())
	cmd.AddCommand(newExplainCommand(), newVersionCommand())
	versionFirst(cmd, &showVersion)
	return cmd
}

// newVersionCommand prints what --version prints: users of kubectl look for a command.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print Berth's version and that of the Kubernetes compiled in",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version.Print(cmd.OutOrStdout(), program)
			return nil
		},
	}
}

// versionFirst makes a command and those below it print the version alone if that is
// asked for.
func versionFirst(cmd *cobra.Command, show *bool) {
	run := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if *show {
			version.Print(c.OutOrStdout(), program)
			return nil
		}
		return run(c, args)
	}
	for _, c := range cmd.Commands() {
		versionFirst(c, show)
	}
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
