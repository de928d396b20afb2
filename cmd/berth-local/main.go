// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command berth-local runs a Kubernetes control plane with simulated nodes on
// this machine: etcd, kube-apiserver, kube-controller-manager and kwok, without a
// scheduler.
//
//	berth-local up --kubeconfig FILE [--data-dir DIR] [--nodes FILE|N]
//	berth-local kubeconfig --data-dir DIR --service-account NAMESPACE/NAME
//
// The binary is also each of its components: it starts itself again under the
// hidden command "component".
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "berth-local"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error of the command line: unknown flags and the like.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	err := newCommand().Execute()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	if errors.As(err, &usageError{}) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           program,
		Short:         "Run a Kubernetes control plane with simulated nodes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	// A flag of our own, not cobra's, and for the subcommands too: the components
	// that are linked in register a global --version, which cobra would find in
	// place of the one it adds, and offer with every subcommand.
	showVersion := version.AddFlag(cmd.PersistentFlags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())}
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newUpCommand(), newKubeconfigCommand(), newComponentCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if showVersion.Printed(c.OutOrStdout(), program) {
				return nil
			}
			return run(c, args)
		}
	}
	return cmd
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}
