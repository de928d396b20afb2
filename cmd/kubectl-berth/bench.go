// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/output"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	file         string
	schedulers   []string
	kubeconfig   string
	kubecontext  string
	configs      []string
	shares       []string
	rounds       int
	steadyRounds int
	outDir       string
	output       string
	binDir       string
	ignoreSpread bool

	// workload, plans and specs are what file, schedulers, configs and shares name.
	workload *workload.Workload
	plans    map[workload.RequestFormat]*workload.Plan
	specs    []*schedulers.Spec
	// command is the command line, quoted for a shell.
	command string
}

func newBenchCommand() *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench -f WORKLOAD.yaml --schedulers NAME,…",
		Short: "Compare the speed and the placements of several schedulers",
		Long: `Run several schedulers on the same pods and fake nodes, in alternating order, and
compare their speed, their cost and the quality of the placement.

Without --kubeconfig everything runs on this machine: a local control plane
(berth-local), and in each round one scheduler, a new process that the benchmark
starts. Every client has the same rate limit, spec.clientQPS of the workload. The
name selects the scheduler:

  default-scheduler   kube-scheduler, with its defaults or a profile
  berth-scheduler     with the profile that the workload or --config names
  random-scheduler    with --fit=resources; bare-binder is added
  bare-binder         not a scheduler: a loop that only posts Bindings and shows the
                      limit of the API server
  any other NAME      berth-scheduler with --config NAME=PROFILE.yaml; the one
                      profile in the file runs under that name

With --kubeconfig the benchmark uses the schedulers of that cluster as they run, with
their own rate limits. It creates a namespace and fake nodes (kwok), labels and taints
them, and puts its pods there; other nodes get none of them. At the end it deletes all
of that. Ctrl-C stops the benchmark; a second Ctrl-C stops it without cleaning up.
"kubectl berth bench clean" deletes what a killed benchmark left; so does "kubectl
delete namespace", except for events about the nodes, which expire.

A benchmark affects others in that cluster: their new pods wait behind its pods, and
whatever counts nodes or pending pods counts its own. The benchmark does not start if
pods have topologySpreadConstraints that would keep new ones Pending meanwhile, unless
--ignore-spread-constraints is set. The README of kubectl-berth lists all effects.

After the rounds as planned, each scheduler has a steady round, in which pods arrive at
80 % of the throughput that it reached. A round that a client's rate limit dominates, or
that does not finish, is shown but does not count.

Exit codes: 0 measured; 1 the benchmark failed, left objects in the cluster, or found
an invalid placement (a device allocated twice, a node with more requests than
capacity); 2 the command line, the workload or a profile is wrong; 4 measured, but no
round of some scheduler counts; 130 interrupted and cleaned up. If every scheduler has
finished a round, the results are printed and written in all cases.`,
		Example: `  kubectl berth bench -f config/bench/smoke.yaml --schedulers default-scheduler,berth-scheduler,random-scheduler
  kubectl berth bench -f config/bench/gpu-mix.yaml --schedulers default-scheduler,berth-scheduler --out report
  kubectl berth bench -f config/bench/burst.yaml --schedulers default-scheduler,berth-scheduler \
    --kubeconfig ~/.kube/config --shares berth-scheduler`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.command = commandLine(os.Args[1:])
			if err := o.complete(cmd); err != nil {
				return err
			}
			return runBench(quietly(cmd.Context()), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "workload file (YAML); examples are in config/bench")
	flags.StringSliceVar(&o.schedulers, "schedulers", nil, "names of the schedulers, separated by commas, in the order of the report")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to use, with the schedulers that run there (default: a local control plane)")
	flags.StringVar(&o.kubecontext, "context", "", "use the cluster of this context, from --kubeconfig or from kubectl's files")
	flags.StringArrayVar(&o.configs, "config", nil, "NAME=PROFILE.yaml: the KubeSchedulerConfiguration for scheduler NAME, instead of the workload's (repeatable)")
	flags.StringSliceVar(&o.shares, "shares", nil, "with --kubeconfig: schedulers that support shares of devices (GPUDevice); for the others, each share becomes one whole device")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds per scheduler (default: the workload's)")
	flags.IntVar(&o.steadyRounds, "steady-rounds", 1, "rounds per scheduler at 80 % of its throughput; only for workloads whose pods all arrive at once")
	flags.StringVar(&o.outDir, "out", "", "folder to write report.json and report.html to")
	addOutputFlag(cmd, &o.output, benchOutputs)
	flags.StringVar(&o.binDir, "bin-dir", "", "folder with berth-local and the schedulers (default: where kubectl-berth is)")
	flags.BoolVar(&o.ignoreSpread, "ignore-spread-constraints", false, "with --kubeconfig: run although new pods with topologySpreadConstraints may stay Pending meanwhile")
	cmd.AddCommand(newBenchCleanCommand())
	return cmd
}

// complete checks everything that can be checked before anything is started.
func (o *benchOptions) complete(cmd *cobra.Command) error {
	if err := o.checkFlags(cmd.Flags().Changed("rounds")); err != nil {
		return err
	}
	if err := o.findBinDir(); err != nil {
		return err
	}
	var err error
	if o.workload, err = workload.Read(o.file); err != nil {
		return usageError{err}
	}
	if o.existing() && o.workload.Spec.Hostile != nil {
		return usagef("--kubeconfig: %s has spec.hostile, which slows down everyone on the cluster: leave the flag out to run on a local control plane", o.file)
	}
	if o.rounds == 0 {
		o.rounds = o.workload.Spec.Rounds
	}
	// A ratio to random-scheduler means something only beside it.
	if slices.Contains(o.schedulers, names.RandomScheduler) && !slices.Contains(o.schedulers, schedulers.BareBinderName) {
		o.schedulers = append(o.schedulers, schedulers.BareBinderName)
	}
	if err := o.findSchedulers(cmd.Context()); err != nil {
		return err
	}
	return o.writeOutPlans()
}

// checkFlags checks what can be said of the flags alone.
func (o *benchOptions) checkFlags(roundsSet bool) error {
	checks := []struct {
		wrong bool
		err   error
	}{
		{o.file == "", usagef("-f: required: name a workload, such as config/bench/smoke.yaml; bench uses the cluster of a kubeconfig only with --kubeconfig or --context, not because KUBECONFIG is set")},
		{len(o.schedulers) == 0, usagef("--schedulers: required: name schedulers, such as default-scheduler,berth-scheduler")},
		{roundsSet && (o.rounds < 1 || o.rounds > 100), usagef("--rounds: %d must be from 1 to 100", o.rounds)},
		{o.steadyRounds < 0 || o.steadyRounds > 100, usagef("--steady-rounds: %d must be from 0 to 100", o.steadyRounds)},
		{o.existing() && len(o.configs) > 0, usagef("--config: only without --kubeconfig: schedulers that run already have their profiles")},
		{!o.existing() && len(o.shares) > 0, usagef("--shares: only with --kubeconfig: for schedulers that the benchmark starts, their profile decides")},
		{!o.existing() && o.ignoreSpread, usagef("--ignore-spread-constraints: only with --kubeconfig")},
	}
	for _, check := range checks {
		if check.wrong {
			return check.err
		}
	}
	if err := oneOf("-o", o.output, benchOutputs...); err != nil {
		return err
	}
	if i := duplicate(o.schedulers); i >= 0 {
		return usagef("--schedulers: %s is given more than once", o.schedulers[i])
	}
	for _, name := range o.shares {
		if !slices.Contains(o.schedulers, name) {
			return usagef("--shares: %s is not among --schedulers", name)
		}
	}
	return nil
}

// existing reports whether an existing cluster is used.
func (o *benchOptions) existing() bool { return o.kubeconfig != "" || o.kubecontext != "" }

// findBinDir fills in the folder of the binaries, which is not needed on an existing
// cluster.
func (o *benchOptions) findBinDir() error {
	if o.binDir != "" || o.existing() {
		return nil
	}
	executable, err := os.Executable()
	if err == nil {
		executable, err = filepath.EvalSymlinks(executable)
	}
	if err != nil {
		return fmt.Errorf("finding the folder with the schedulers: %w: name it with --bin-dir", err)
	}
	o.binDir = filepath.Dir(executable)
	return nil
}

func (o *benchOptions) findSchedulers(ctx context.Context) error {
	profiles, err := o.profiles()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range o.schedulers {
		if err := schedulers.CheckName(name); err != nil {
			return usagef("--schedulers: %w", err)
		}
		if o.existing() {
			o.specs = append(o.specs, schedulers.ExistingSpec(name, slices.Contains(o.shares, name)))
			continue
		}
		spec, err := schedulers.Find(ctx, name, schedulers.FindOptions{BinDir: o.binDir, Profiles: profiles})
		if err != nil {
			errs = append(errs, fmt.Errorf("--schedulers: %w", err))
			continue
		}
		o.specs = append(o.specs, spec)
	}
	if err := errors.Join(errs...); err != nil {
		if errors.Is(err, schedulers.ErrProfile) {
			return usageError{err}
		}
		return err
	}
	return nil
}

// profiles are the configuration files by scheduler: the workload's, and --config's
// in their place.
func (o *benchOptions) profiles() (map[string]string, error) {
	profiles := map[string]string{}
	for _, name := range o.schedulers {
		if path, ok := o.workload.Profile(name); ok {
			profiles[name] = path
		}
	}
	given := map[string]bool{}
	for _, value := range o.configs {
		name, path, ok := strings.Cut(value, "=")
		switch {
		case !ok || name == "" || path == "":
			return nil, usagef("--config: %q must be NAME=PROFILE.yaml", value)
		case !slices.Contains(o.schedulers, name):
			return nil, usagef("--config: %s is not among --schedulers", name)
		case given[name]:
			return nil, usagef("--config: %s is given more than once", name)
		}
		given[name], profiles[name] = true, path
	}
	if slices.Contains(o.schedulers, names.Scheduler) && profiles[names.Scheduler] == "" && !o.existing() {
		return nil, usagef("--config: %s needs a profile, and the workload names none: add --config %[1]s=PROFILE.yaml", names.Scheduler)
	}
	return profiles, nil
}

// writeOutPlans writes the workload out as each scheduler gets it, which shows
// whether that can be.
func (o *benchOptions) writeOutPlans() error {
	o.plans = map[workload.RequestFormat]*workload.Plan{}
	for _, format := range workload.RequestFormats() {
		plan, err := o.workload.Plan(format)
		if err != nil {
			return usageError{err}
		}
		o.plans[format] = plan
	}
	return nil
}

// commandLine is what was typed, quoted for a shell.
func commandLine(args []string) string {
	quoted := []string{invocation}
	for _, arg := range args {
		quoted = append(quoted, output.ShellWord(arg))
	}
	return strings.Join(quoted, " ")
}
