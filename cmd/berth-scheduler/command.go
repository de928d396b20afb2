// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/term"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
	"github.com/berth-scheduler/berth/pkg/version"
)

const program = "berth-scheduler"

// newCommand returns kube-scheduler's command, with the same flags, that runs
// [run]. Upstream's own constructor (app.NewSchedulerCommand) keeps its options
// to itself, and the checks between Setup and Run need them.
func newCommand() *cobra.Command {
	flags := settings.New()
	opts := flags.Options

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
	}

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if flags.Version.Printed(cmd.OutOrStdout(), program) {
			return nil
		}
		return runCommand(cmd, flags)
	}
	for _, fs := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	cols, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, cols)
	utilruntime.Must(cmd.MarkFlagFilename("config", "yaml", "yml", "json"))
	return cmd
}

// runCommand applies the logging flags and runs the scheduler until a signal.
func runCommand(cmd *cobra.Command, flags *settings.Flags) error {
	opts := flags.Options
	gate := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gate); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	version.RegisterMetric()
	if flags.Validate && opts.WriteConfigTo != "" {
		return errors.New("--validate: does not go with --write-config-to, which checks the file too")
	}
	if err := checkFlags(flags); err != nil {
		return err
	}
	if flags.Validate || opts.WriteConfigTo != "" && opts.ConfigFile != "" {
		names, err := validate(cmd.Context(), flags)
		if err != nil {
			return err
		}
		if flags.Validate {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: valid; serves %s\n", flags.Source(opts.ConfigFile), strings.Join(names, ", "))
			return nil
		}
	}
	return run(server.SetupSignalContext(), flags)
}

// checkFlags checks the flags, and the configuration file with them. It runs before signals
// are handled, so that one ends it.
func checkFlags(flags *settings.Flags) error {
	opts := flags.Options
	if err := flags.Check(); err != nil {
		return err
	}
	switch {
	case opts.ConfigFile != "":
		content, err := os.ReadFile(opts.ConfigFile)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		// The plugins validate their arguments again when they are built, but then one at
		// a time and without knowing where in the file they stand, and only once a
		// kubeconfig was found.
		_, err = flags.Load(opts.ConfigFile, content)
		return err
	case opts.WriteConfigTo != "" && !flags.Validate:
		return nil
	}
	return settings.ErrNoConfig
}

// scheduler is what upstream's Setup returns, and what each profile of it runs
// after multiPoint was expanded and the defaults merged.
type scheduler struct {
	config    *schedulerserverconfig.CompletedConfig
	sched     *kubescheduler.Scheduler
	effective map[string]*schedconfig.Plugins
	// measuring are the plugins of each profile that say how far nodes are.
	measuring map[string][]shortfall.Plugin
	// gangs are the plugins of all profiles that place gangs.
	gangs []gangPlugin
	// preparers are the plugins of all profiles that have to prepare.
	preparers []preparer
}

// gangPlugin is a plugin that knows how it gave a pod's gang up.
type gangPlugin interface {
	GaveUp(pod *corev1.Pod) (found int, this, ok bool)
}

// gaveUp asks the profile's plugin that places gangs: one alone has heard of the pod.
func (s *scheduler) gaveUp(pod *corev1.Pod) (found int, this, ok bool) {
	for _, plugin := range s.gangs {
		if found, this, ok = plugin.GaveUp(pod); ok {
			return found, this, ok
		}
	}
	return 0, false, false
}

// build makes the scheduler that opts describe and checks what can only be checked
// on the built one. file is the configuration file that opts name, or were made of. It does not ask the API server anything. Within the check every
// error is reported. With --write-config-to it writes the file and ends the process.
func build(ctx context.Context, file string, opts *options.Options) (*scheduler, error) {
	var registered []app.Option
	s := &scheduler{measuring: map[string][]shortfall.Plugin{}}
	for name, factory := range registry.New() {
		registered = append(registered, app.WithPlugin(name, s.remembered(factory)))
	}
	config, sched, err := app.Setup(ctx, opts, registered...)
	if err != nil {
		return nil, err
	}
	s.config, s.sched, s.effective = config, sched, make(map[string]*schedconfig.Plugins, len(sched.Profiles))
	for name, fw := range sched.Profiles {
		s.effective[name] = fw.ListPlugins()
	}
	checked := config.ComponentConfig
	if file != "" {
		// Where Setup logs the configuration, it drops the arguments of plugins that do not
		// run from its own copy.
		loaded, err := options.LoadConfigFromFile(klog.FromContext(ctx), file)
		if err != nil {
			return nil, err
		}
		checked.Profiles = loaded.Profiles
	}
	return s, registry.CheckConfiguration(&checked, s.effective)
}

// remembered returns the factory, and puts what it makes, if that measures nodes or has to
// prepare, beside others of that kind.
func (s *scheduler) remembered(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := factory(ctx, args, handle)
		if err != nil {
			return plugin, err
		}
		if measures, ok := plugin.(shortfall.Plugin); ok {
			profile := handle.ProfileName()
			s.measuring[profile] = append(s.measuring[profile], measures)
			slices.SortFunc(s.measuring[profile], func(a, b shortfall.Plugin) int { return cmp.Compare(a.Name(), b.Name()) })
		}
		if places, ok := plugin.(gangPlugin); ok {
			s.gangs = append(s.gangs, places)
		}
		if prepares, ok := plugin.(preparer); ok {
			s.preparers = append(s.preparers, prepares)
		}
		return plugin, nil
	}
}

// names returns the scheduler names that are served, sorted.
func (s *scheduler) names() []string { return slices.Sorted(maps.Keys(s.effective)) }

// validate does what a start does with the file and the flags as long as it needs no cluster
// and no credential, and returns the scheduler names that they serve.
func validate(ctx context.Context, flags *settings.Flags) ([]string, error) {
	content, err := os.ReadFile(flags.Options.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	profile, err := settings.Load(ctx, flags.Options.ConfigFile, content, flags)
	if err != nil {
		return nil, err
	}
	return profile.Names(), nil
}

// applyMetrics applies the flags about metrics, and leaves nothing of them for upstream to
// apply, which logs an error at every start that names no allow list of labels.
func applyMetrics(opts *options.Options) {
	m := opts.Metrics
	if m.AllowListMapping != nil || m.AllowListMappingManifest != "" {
		return
	}
	if m.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(m.DisabledMetrics)
	opts.Metrics = nil
}

// run builds the scheduler, checks what the cluster has for it, and runs it. It
// returns at the first check that fails; within one check every error is reported.
func run(ctx context.Context, flags *settings.Flags) error {
	opts := flags.Options
	file := flags.Source(opts.ConfigFile)
	path, done, err := withKubeconfigFlag(opts.ConfigFile, opts.Deprecated.Kubeconfig)
	if err != nil {
		return err
	}
	changed := *opts
	changed.ConfigFile = path
	applyMetrics(&changed)
	built, err := build(ctx, opts.ConfigFile, &changed)
	done()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	config, sched := built.config, built.sched
	lock := watchLease(built, flags)
	endBindingsFirst(sched, lock, config.ComponentConfig.LeaderElection.RenewDeadline.Duration)
	check := func() error { return checkCluster(ctx, file, built, flags) }
	reach := func() error { return preflight.Reach(ctx, config.Client, reachTimeout) }
	unreachable := reach()
	if unreachable == nil {
		if err := check(); err != nil {
			return err
		}
	}
	showReadiness(config, lock, prepareFirst(ctx, sched, built.preparers))
	if err := errors.Join(tellOwners(ctx, built), tellTaints(ctx, built)); err != nil {
		return err
	}
	go func() {
		if unreachable != nil {
			checkLater(ctx, config.Client, unreachable, check)
		}
		nameUnsynced(ctx, syncTimeout, reach, config.InformerFactory, config.DynInformerFactory)
	}()
	return app.Run(ctx, config, sched)
}

// checkCluster checks what the cluster has, and lets this credential do, of what
// the scheduler needs. What cannot be asked passes: leader election and the
// informers wait for an API server.
func checkCluster(ctx context.Context, file string, s *scheduler, flags *settings.Flags) error {
	config := s.config
	problem, err := preflight.NotNewer(config.Client.Discovery(), compat.Release)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not get the API server's version; starting without this check")
	}
	if problem != nil {
		return problem
	}
	custom := registry.CustomResources(s.effective)
	if err := checkServed(ctx, config.Client, custom); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	problem, err = settings.PodGroupsServed(config.Client, flags.Enabled)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not get the resources that the API server serves; starting without this check")
	}
	if problem != nil {
		return problem
	}
	rights := settings.Rights(&config.ComponentConfig, s.effective, flags.Enabled)
	if err := checkRights(ctx, config.Client, flags.Options, rights); err != nil {
		return err
	}
	if err := preflight.CheckLeaseNamespace(ctx, config.Client, config.ComponentConfig.LeaderElection); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := checkSole(ctx, s, flags); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
