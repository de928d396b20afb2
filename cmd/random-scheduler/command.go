// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentbaseoptions "k8s.io/component-base/config/options"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for --logging-format=json

	"github.com/berth-scheduler/berth/pkg/randombinder"
	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "random-scheduler"

// clientOptions say how to reach the API server.
type clientOptions struct {
	kubeconfig string
	qps        float32
	burst      int
}

// newCommand returns the whole command line of random-scheduler.
func newCommand() *cobra.Command {
	options := randombinder.DefaultOptions()
	client := &clientOptions{qps: 50, burst: 100}
	logging := logsapi.NewLoggingConfiguration()
	var showVersion *version.Flag
	cmd := &cobra.Command{
		Use:   program,
		Short: "Bind pods to random nodes: a baseline for other schedulers",
		Long: `random-scheduler watches pending pods whose spec.schedulerName is its own, and
binds each to a node drawn uniformly at random from those that may take it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion.Printed(cmd.OutOrStdout(), program) {
				return nil
			}
			if cmd.Flags().Changed("namespaces") && len(options.Namespaces) == 0 {
				// An unset shell variable must not turn one namespace into all.
				return errors.New("invalid flags: --namespaces: Required value: name a namespace, or leave the flag out for all")
			}
			if err := options.Validate(); err != nil {
				return err
			}
			options.Kubeconfig = client.kubeconfig
			config, err := client.restConfig()
			if err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			version.RegisterMetric()
			return randombinder.Run(cmd.Context(), config, options)
		},
	}
	flags := cmd.Flags()
	showVersion = version.AddFlag(flags)
	addBinderFlags(flags, options)
	componentbaseoptions.BindLeaderElectionFlags(&options.LeaderElection, flags)
	client.addFlags(flags)
	logsapi.AddFlags(logging, flags)
	return cmd
}

// addBinderFlags binds the options to flags whose names Options.Validate uses.
func addBinderFlags(flags *pflag.FlagSet, o *randombinder.Options) {
	flags.StringVar(&o.SchedulerName, "scheduler-name", o.SchedulerName, "bind the pods with this spec.schedulerName")
	flags.StringSliceVar(&o.Namespaces, "namespaces", o.Namespaces, "bind only the pods of these namespaces (default all)")
	flags.StringVar((*string)(&o.Fit), "fit", string(o.Fit), `which nodes may take a pod: "constraints", ready, not cordoned, taints tolerated, nodeSelector and required node affinity matched; "resources", also with room for its requests; "none", any that is ready`)
	flags.IntVar(&o.Workers, "workers", o.Workers, "number of Bindings in flight at a time")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the random choice; 0 draws one and logs it")
	flags.DurationVar(&o.InitialBackoff, "pod-initial-backoff", o.InitialBackoff, "wait before a pod that got no node is tried again without a change in the cluster; doubles each time")
	flags.DurationVar(&o.MaxBackoff, "pod-max-backoff", o.MaxBackoff, "longest such wait")
	serving := o.SecureServing
	flags.IPVar(&serving.BindAddress, "bind-address", serving.BindAddress, "address to serve at over HTTPS: /healthz and /readyz to anybody, /metrics to those whom the API server lets")
	flags.IntVar(&serving.BindPort, "secure-port", serving.BindPort, "port to serve at; 0 to serve nothing")
	flags.StringVar(&serving.ServerCert.CertKey.CertFile, "tls-cert-file", "", "file with the certificate to serve with (default: one made up at start)")
	flags.StringVar(&serving.ServerCert.CertKey.KeyFile, "tls-private-key-file", "", "file with its private key")
}

func (c *clientOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", c.kubeconfig, "kubeconfig file (default: the ServiceAccount of the pod that this runs in)")
	flags.Float32Var(&c.qps, "kube-api-qps", c.qps, "requests per second to the API server, for Bindings and events separately; 0 for no limit on this side")
	flags.IntVar(&c.burst, "kube-api-burst", c.burst, "requests that may exceed --kube-api-qps at once")
}

// restConfig validates the options and returns how to reach the API server.
func (c *clientOptions) restConfig() (*rest.Config, error) {
	if !(c.qps >= 0) { // also false for NaN
		return nil, fmt.Errorf("invalid flags: --kube-api-qps: Invalid value: %v: must not be negative (0 for no limit)", c.qps)
	}
	if c.qps > 0 && c.burst < 1 {
		return nil, fmt.Errorf("invalid flags: --kube-api-burst: Invalid value: %d: must be at least 1", c.burst)
	}
	var config *rest.Config
	var err error
	if c.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig=%s: %w", c.kubeconfig, err)
		}
	} else {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("--kubeconfig: Required value: this does not run in a pod, so say where the cluster is")
		}
		if err != nil {
			return nil, fmt.Errorf("using the ServiceAccount of this pod: %w", err)
		}
	}
	config.QPS, config.Burst = c.qps, c.burst
	if c.qps == 0 {
		// client-go reads 0 as its default of 5, and -1 as no limit.
		config.QPS = -1
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}
