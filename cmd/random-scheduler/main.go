// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command random-scheduler binds the pods of its schedulerName to random nodes.
// See pkg/randombinder.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for --logging-format=json

	"github.com/berth-scheduler/berth/pkg/randombinder"
	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "random-scheduler"

func main() {
	cmd := newCommand()
	cmd.SetContext(server.SetupSignalContext())
	if err := cli.RunNoErrOutput(cmd); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// newCommand returns the whole command line of random-scheduler.
func newCommand() *cobra.Command {
	logging := logsapi.NewLoggingConfiguration()
	qps, burst := float32(50), 100
	cmd := &cobra.Command{
		Use:   program,
		Short: "Bind pods to random nodes: a baseline for other schedulers",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	showVersion := version.AddFlag(flags)
	options := randombinder.NewOptions(flags)
	flags.Float32Var(&qps, "kube-api-qps", qps, "requests per second to the API server, for Bindings and events separately; 0 for no limit on this side")
	flags.IntVar(&burst, "kube-api-burst", burst, "requests that may exceed --kube-api-qps at once")
	logsapi.AddFlags(logging, flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if showVersion.Printed(cmd.OutOrStdout(), program) {
			return nil
		}
		if flags.Changed("namespaces") && len(options.Namespaces) == 0 {
			// An unset shell variable must not turn one namespace into all.
			return errors.New("invalid flags: --namespaces: Required value: name a namespace, or leave the flag out for all")
		}
		if err := options.Validate(); err != nil {
			return err
		}
		config, err := restConfig(options.Kubeconfig, qps, burst)
		if err != nil {
			return err
		}
		if err := logsapi.ValidateAndApply(logging, nil); err != nil {
			return err
		}
		version.RegisterMetric()
		return randombinder.Run(cmd.Context(), config, options)
	}
	return cmd
}

// restConfig returns how to reach the API server.
func restConfig(kubeconfig string, qps float32, burst int) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = qps, burst
	if qps == 0 {
		// client-go reads 0 as its default of 5, and -1 as no limit.
		config.QPS = -1
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}
