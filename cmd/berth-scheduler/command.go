// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/unknownkeys"
	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "berth-scheduler"

// newCommand returns kube-scheduler's command, with the same flags, that runs
// [run]. Upstream's own constructor (app.NewSchedulerCommand) keeps its options
// to itself, and the checks between Setup and Run need them.
func newCommand() *cobra.Command {
	opts := options.NewOptions()
	var showVersion bool

	cmd := &cobra.Command{
		Use:   program,
		Short: "kube-scheduler with Berth's plugins, to run beside the cluster's own scheduler",
		Long: `berth-scheduler is kube-scheduler with Berth's Filter and Score plugins compiled in.
It runs beside the cluster's own scheduler and takes the pods whose schedulerName
names one of the profiles in the file given with --config.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints the error, once
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				version.Print(cmd.OutOrStdout(), program)
				return nil
			}
			return runCommand(cmd, opts)
		},
	}

	global := opts.Flags.FlagSet("global")
	global.BoolVar(&showVersion, "version", false, "Print Berth's version and that of the Kubernetes compiled in, and exit.")
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, fs := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, cols)
	utilruntime.Must(cmd.MarkFlagFilename("config", "yaml", "yml", "json"))
	return cmd
}

// runCommand applies the logging flags and runs the scheduler until a signal.
func runCommand(cmd *cobra.Command, opts *options.Options) error {
	gate := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gate); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	if err := checkConfigFlag(klog.FromContext(cmd.Context()), opts); err != nil {
		return err
	}
	return run(server.SetupSignalContext(), opts)
}

// checkConfigFlag checks the configuration file. It runs before signals are
// handled, so that one ends it.
func checkConfigFlag(logger klog.Logger, opts *options.Options) error {
	switch {
	case opts.ConfigFile != "":
		return checkFile(logger, opts.ConfigFile)
	case opts.WriteConfigTo != "":
		return nil
	}
	return errors.New("--config: required: the path of a KubeSchedulerConfiguration; without one this process would serve default-scheduler, the cluster's own scheduler")
}

// run builds the scheduler, checks what can only be checked on the built one, and
// runs it. It returns at the first check that fails; within one check every error
// is reported.
func run(ctx context.Context, opts *options.Options) error {
	file := opts.ConfigFile
	path, remove, err := withKubeconfigFlag(file, opts.Deprecated.Kubeconfig)
	if err != nil {
		return err
	}
	defer remove()
	opts.ConfigFile = path

	var registered []app.Option
	for name, factory := range registry.New() {
		registered = append(registered, app.WithPlugin(name, factory))
	}
	// With --write-config-to, Setup writes the file and ends the process.
	config, sched, err := app.Setup(ctx, opts, registered...)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	remove()
	effective := effectivePlugins(sched.Profiles)
	if err := registry.CheckConfiguration(&config.ComponentConfig, effective); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	custom := registry.CustomResources(effective)
	if err := checkServed(ctx, config.Client, custom); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	rights := neededRights(&config.ComponentConfig, utilfeature.DefaultFeatureGate.Enabled)
	rights = append(rights, pluginRights(effective)...)
	if err := checkRights(ctx, config.Client, opts, append(rights, customRights(custom)...)); err != nil {
		return err
	}
	if err := checkLeaseNamespace(ctx, config.Client, config.ComponentConfig.LeaderElection); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := unknownkeys.Watch(config.InformerFactory, func(schedulerName string) events.EventRecorder {
		if fw, ok := sched.Profiles[schedulerName]; ok {
			return fw.EventRecorder()
		}
		return nil
	}); err != nil {
		return err
	}
	go nameUnsynced(ctx, syncPatience, config.InformerFactory, config.DynInformerFactory)
	return app.Run(ctx, config, sched)
}

// effectivePlugins returns what each profile runs after multiPoint was expanded
// and the defaults merged.
func effectivePlugins(profiles profile.Map) map[string]*schedconfig.Plugins {
	effective := make(map[string]*schedconfig.Plugins, len(profiles))
	for name, fw := range profiles {
		effective[name] = fw.ListPlugins()
	}
	return effective
}
