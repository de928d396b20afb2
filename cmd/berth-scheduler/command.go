// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
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

	"github.com/berth-scheduler/berth/pkg/preflight"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/unknownkeys"
	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "berth-scheduler"

// syncPatience is how long the informers may take to fill before the log names
// those that have not.
const syncPatience = 30 * time.Second

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
	return run(server.SetupSignalContext(), opts)
}

// run checks the configuration file, builds the scheduler, checks what can only
// be checked on the built one, and runs it. It returns at the first check that
// fails; within one check every error is reported.
func run(ctx context.Context, opts *options.Options) error {
	logger := klog.FromContext(ctx)

	if opts.ConfigFile == "" && opts.WriteConfigTo == "" {
		return errors.New("--config: required: the path of a KubeSchedulerConfiguration; without one this process would serve default-scheduler, the cluster's own scheduler")
	}
	if opts.ConfigFile != "" {
		if err := checkFile(logger, opts.ConfigFile); err != nil {
			return err
		}
	}

	var registered []app.Option
	for _, plugin := range registry.Plugins() {
		registered = append(registered, app.WithPlugin(plugin.Name, plugin.New))
	}
	config, sched, err := app.Setup(ctx, opts, registered...)
	if err != nil {
		return err
	}
	if opts.WriteConfigTo != "" {
		// As upstream: the file is written, and the caller wanted nothing else.
		logger.Info("Wrote the configuration", "file", opts.WriteConfigTo)
		return nil
	}

	if err := registry.CheckConfiguration(&config.ComponentConfig, effectivePlugins(sched.Profiles)); err != nil {
		return fmt.Errorf("%s: %w", opts.ConfigFile, err)
	}
	if err := checkRights(ctx, config.Client, &config.ComponentConfig, serving{
		port:   opts.SecureServing.BindPort != 0,
		lookup: !opts.Authentication.SkipInClusterLookup,
	}); err != nil {
		return err
	}
	if err := unknownkeys.Watch(ctx, config.InformerFactory, func(schedulerName string) events.EventRecorder {
		if fw, ok := sched.Profiles[schedulerName]; ok {
			return fw.EventRecorder()
		}
		return nil
	}); err != nil {
		return err
	}
	go nameUnsynced(ctx, config.InformerFactory)
	return app.Run(ctx, config, sched)
}

// checkFile decodes the file as upstream will, strictly, and validates the
// arguments of Berth's plugins with their place in the file. The plugins do so
// again when they are built, but then one at a time and without knowing where
// in the file they stand, and only once a kubeconfig was found.
func checkFile(logger klog.Logger, file string) error {
	config, err := options.LoadConfigFromFile(logger, file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := registry.ValidateArgs(config); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
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

// checkRights fails if the API server denies something that the scheduler
// needs. If it cannot be asked, the scheduler starts regardless: its informers
// wait for an API server that comes up late.
func checkRights(ctx context.Context, client preflightClient, config *schedconfig.KubeSchedulerConfiguration, serving serving) error {
	err := preflight.Check(ctx, client, neededRights(config, serving, utilfeature.DefaultFeatureGate.Enabled))
	var missing *preflight.MissingRightsError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%w\ngrant them, for instance with manifests/base/rbac.yaml, and start again", err)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Could not check this credential's rights, starting without")
	}
	return nil
}

// nameUnsynced logs, once, which informers have not filled in time: the one
// symptom that is left if a right that neededRights does not know is missing, or
// if the API server does not serve a resource.
func nameUnsynced(ctx context.Context, factory informers.SharedInformerFactory) {
	patience, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	var unsynced []string
	for informed, synced := range factory.WaitForCacheSync(patience.Done()) {
		if !synced {
			unsynced = append(unsynced, typeName(informed))
		}
	}
	if len(unsynced) > 0 && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "No pod is scheduled until these resources can be listed and watched: is the API server serving them, and does this credential's role allow it?",
			"resources", unsynced, "waited", syncPatience)
	}
}

// typeName returns "v1.Node" for *v1.Node.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.String()
}
