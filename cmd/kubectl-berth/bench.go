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

// outputMarkdown is what --output takes beside table and json.
const outputMarkdown = "markdown"

func newBenchCommand() *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench -f WORKLOAD.yaml --schedulers NAME,…",
		Short: "Let schedulers place the same pods, and compare their speed and placement",
		Long: `Let several schedulers place the same pods on the same fake nodes, in turns, and
compare how fast they are, what they cost and how good the placement is.

Without --kubeconfig everything runs on this machine: a control plane of its own
(berth-local) and, in each round, exactly one scheduler, a new process that the
benchmark starts. Every client has the same limit, spec.clientQPS of the workload.
The schedulers are found by name:

  default-scheduler   kube-scheduler, with its defaults or a profile
  berth-scheduler     with the profile that the workload or --config names
  random-scheduler    with --fit=resources; bare-binder comes with it
  bare-binder         no scheduler: a loop that only posts Bindings, which shows
                      what the API server allows
  any other NAME      berth-scheduler with --config NAME=PROFILE.yaml; the one
                      profile in the file runs under that name

With --kubeconfig, the schedulers of that cluster are used as they run, with their own
limits. The pods go to a namespace and to fake nodes (kwok) that the benchmark creates,
labels and taints; other nodes get none of them. At the end all of this is deleted,
whether the benchmark succeeds or fails. Ctrl-C stops the benchmark; a second Ctrl-C
leaves everything in place. "kubectl berth bench clean" deletes what a killed benchmark
left behind; so does "kubectl delete namespace", except for events about the nodes,
which expire.

Other users of that cluster notice a benchmark: their new pods wait behind its pods,
and whatever counts nodes or pending pods counts the benchmark's, too. The benchmark
does not start if it sees pods whose topologySpreadConstraints would keep new pods
Pending, unless --ignore-spread-constraints is given. The README of kubectl-berth
describes all effects.

The rounds of the schedulers alternate. After them, each scheduler has a steady round,
in which the pods arrive at 80 % of the throughput that it reached. A round that
measured the limit of a client, or did not finish, is shown but does not count.

Exit codes: 0 measured; 1 the benchmark failed, left something in the cluster, or found
an impossible placement (a device allocated twice, or a node with more requests than it
has); 2 the command line, the workload or a profile is wrong; 4 measured, but no round
of some scheduler counts; 130 interrupted, and everything was deleted. The results are
printed and written in all cases if every scheduler has completed a round.`,
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
	flags.StringVarP(&o.file, "filename", "f", "", "workload, a YAML file (config/bench has some)")
	flags.StringSliceVar(&o.schedulers, "schedulers", nil, "schedulers by name, separated by commas, in the order of the report")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "run on this cluster, with the schedulers that run there; without it, on a control plane on this machine")
	flags.StringVar(&o.kubecontext, "context", "", "run on the cluster of this context, from --kubeconfig or kubectl's files")
	flags.StringArrayVar(&o.configs, "config", nil, "NAME=PROFILE.yaml: start scheduler NAME with this KubeSchedulerConfiguration instead of the workload's; repeat it for each scheduler")
	flags.StringSliceVar(&o.shares, "shares", nil, "with --kubeconfig: the schedulers that support shares of devices (GPUDevice); the others get each share as one whole device")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds for each scheduler (default: the workload's)")
	flags.IntVar(&o.steadyRounds, "steady-rounds", 1, "rounds for each scheduler at 80 % of its throughput; only if all pods arrive at once")
	flags.StringVar(&o.outDir, "out", "", "folder to write report.json and report.html to")
	flags.StringVarP(&o.output, "output", "o", outputTable, "output format: table, json or markdown")
	flags.StringVar(&o.binDir, "bin-dir", "", "folder with berth-local and the schedulers (default: where kubectl-berth is)")
	flags.BoolVar(&o.ignoreSpread, "ignore-spread-constraints", false, "with --kubeconfig: run even if pods of the cluster are spread with DoNotSchedule, so that new ones may stay Pending during the benchmark")
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
		return usagef("--kubeconfig: %s has spec.hostile, which slows down all users of the cluster: omit the flag to run it on a control plane of its own", o.file)
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
		{o.file == "", usagef("-f: required: name a workload, such as config/bench/smoke.yaml; a cluster is used only with --kubeconfig or --context, not because of the environment variable KUBECONFIG alone")},
		{len(o.schedulers) == 0, usagef("--schedulers: required: name schedulers, such as default-scheduler,berth-scheduler")},
		{!slices.Contains([]string{outputTable, outputJSON, outputMarkdown}, o.output), oneOf("-o", o.output, outputTable, outputJSON, outputMarkdown)},
		{roundsSet && (o.rounds < 1 || o.rounds > 100), usagef("--rounds: %d must be from 1 to 100", o.rounds)},
		{o.steadyRounds < 0 || o.steadyRounds > 100, usagef("--steady-rounds: %d must be from 0 to 100", o.steadyRounds)},
		{o.existing() && len(o.configs) > 0, usagef("--config: only without --kubeconfig: running schedulers have their own profiles")},
		{!o.existing() && len(o.shares) > 0, usagef("--shares: only with --kubeconfig: for schedulers that the benchmark starts, the profile says whether they support shares")},
		{!o.existing() && o.ignoreSpread, usagef("--ignore-spread-constraints: only with --kubeconfig")},
	}
	for _, check := range checks {
		if check.wrong {
			return check.err
		}
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

// findSchedulers finds the schedulers.
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
