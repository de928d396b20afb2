// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/simulator"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	simulator.Options
	clusterInput

	seedList       string
	targetLoadText string
	shares         string
	outDir         string
	output         string
}

// What --shares takes.
const (
	sharesWhole = "whole"
	sharesKeep  = "keep"
)

// defaultTargetLoad is the paper's.
const defaultTargetLoad = "1.3"

func newSimulateCommand() *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE… [--config PROFILE.yaml…]",
		Short: "Show whether pods would fit, or how well a profile packs the pods of a trace",
		Long: `Let the plugins of a KubeSchedulerConfiguration place pods on nodes in memory: what
berth-scheduler would do with the same file, without an API server. The command never
writes to a cluster, and reads one with list requests only.

Will these pods fit? Manifests are applied, in memory, to the cluster of the current
context, of --context and --kubeconfig, or of the files, as printed by "kubectl get
nodes,pods,namespaces,services,… -A -o yaml". The answer comes first, then where each
pod would run, or why it would not. Bound pods occupy their nodes; pending pods are
placed in the order of the scheduling queue. The question is about the pods of the
manifests or, without manifests, about all pending pods. On Kubernetes 1.37 the
members of a PodGroup (scheduling.k8s.io) are placed together, by the scheduler's own
cycle for them: at least minCount of them, or none. Manifests are read as kubectl apply
reads them: an object without a namespace is in that of -n or of the context, a
Deployment, StatefulSet, ReplicaSet, Job or CronJob stands for its pods, an unknown
field is an error, and what Berth would report in an event is a note.

How well does a profile pack GPUs? openb CSV files are the trace of the fragmentation
paper (FGD, USENIX ATC'23): one of nodes (columns sn, cpu_milli, memory_mib, gpu,
model) and one of pods (name, cpu_milli, memory_mib, num_gpu, gpu_milli, …). The pods
arrive one by one in the random order of a seed, until they have asked for
--target-load; a pod that is not placed is not tried again. This is the paper's
experiment.

Without --config, the profile is that of the scheduler that handles the pods in
question, as found in its ConfigMap in the cluster or among the files. With several
--config, the profiles are compared. A single profile schedules all pods, whatever
their schedulerName is. A profile without GPUDevice does not support shares: each share
in a trace becomes a whole nvidia.com/gpu, and the profile's name in the report ends in
+whole (--shares).

A pod that no node can take is not an error: it fails, and the report says why. If a
pod accepts a model that no node has, a note says so.

Exit codes: 0 every pod in question was placed, and none was evicted; 1 the simulation
failed; 2 the command line is wrong; 3 finished, but not every pod in question was
placed in every run (always the case if a trace asks for more than the nodes have).`,
		Example: `  # Would this Deployment fit into the cluster of the current context?
  kubectl berth simulate -f deployment.yaml

  # The same in a pipeline, from what kubectl printed elsewhere
  kubectl get nodes,pods,namespaces -A -o yaml > cluster.yaml
  kubectl berth simulate -f cluster.yaml -f manifests/ --config config/berth-scheduler/gpu.yaml -o json

  # The paper's experiment, with two profiles and ten seeds
  kubectl berth simulate -f openb_node_list_gpu_node.csv -f openb_pod_list_default.csv \
    --config config/simulator/fgd.yaml --config config/simulator/bestfit.yaml --seeds 42..51 --out report`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.TargetLoadSet = cmd.Flags().Changed("target-load")
			if err := o.complete(); err != nil {
				return err
			}
			o.Stdin = cmd.InOrStdin()
			if err := placeGangs(); err != nil {
				return err
			}
			return simulate(withErrorsOnly(cmd.Context()), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addConfigFlags(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.Files, "filename", "f", nil, "file of nodes or pods, CSV, YAML or JSON, or a folder of YAML and JSON files; - is standard input; may be repeated")
	flags.StringArrayVar(&o.Profiles, "config", nil, "KubeSchedulerConfiguration file to use instead of the running scheduler's profile; repeat it to compare profiles")
	flags.StringVar(&o.SchedulerName, "scheduler-name", "", "schedulerName of the profile to use in each --config; needed if a file has several and the pods do not name them")
	flags.StringVar(&o.seedList, "seeds", "42", "seeds, each for one run: a list such as 1,2,5 or a range such as 42..51")
	flags.StringVar(&o.targetLoadText, "target-load", defaultTargetLoad, "for CSV pods: the total that they ask for, as a multiple of all GPUs, such as 1.3 or 130%; pods are repeated or left out at random to reach it; 0 uses the list unchanged")
	flags.StringVar((*string)(&o.ExpectedWorkload), "expected-workload", string(simulator.WorkloadOfProfile), "workload that GPUDevice's strategies FragmentationGradient and FragmentationGradientPublished expect: \"profile\", given in the profile or learned; \"oracle\", the pods of the trace or of the whole cluster, as in the paper, unless the profile gives one; or \"both\", to compare the two")
	flags.StringVar(&o.shares, "shares", sharesWhole, "for CSV pods and profiles without GPUDevice, which do not support shares of devices: \"whole\" turns each share into one whole nvidia.com/gpu on nodes with a device plugin, and the report says so; \"keep\" leaves the shares, and those pods fit nowhere")
	flags.BoolVar(&o.Preemption, "preemption", false, "let pods evict others if the profile would; evicted pods are not recreated")
	flags.IntVar(&o.Parallel, "parallel", runtime.GOMAXPROCS(0), "number of parallel runs or, if there are fewer runs, of goroutines that share the work of each; the results do not depend on it")
	flags.StringVar(&o.outDir, "out", "", "folder to write report.json, summary.csv, series.csv, placements.csv and plots (SVG and PNG) to")
	addOutputFlag(cmd, &o.output, simulateOutputs)
	completeFlag(cmd, "shares", completeValues(sharesWhole, sharesKeep))
	return cmd
}

// complete checks the flags and fills in what follows from them.
func (o *simulateOptions) complete() error {
	if err := o.checkInput(); err != nil {
		return err
	}
	err := cmp.Or(
		oneOf("-o", o.output, simulateOutputs...),
		oneOf("--expected-workload", string(o.ExpectedWorkload), string(simulator.WorkloadOfProfile), string(simulator.WorkloadOfInput), string(simulator.WorkloadBoth)),
		oneOf("--shares", o.shares, sharesWhole, sharesKeep),
	)
	if err != nil {
		return err
	}
	if o.Parallel < 1 {
		return usagef("--parallel: %d must be at least 1", o.Parallel)
	}
	if o.TargetLoad, err = parseTargetLoad(o.targetLoadText); err != nil {
		return usagef("--target-load: %w", err)
	}
	if o.Seeds, err = parseSeeds(o.seedList); err != nil {
		return usagef("--seeds: %w", err)
	}
	o.KeepShares, o.Placements = o.shares == sharesKeep, o.outDir != ""
	return nil
}

// checkInput checks the flags that say what is read.
func (o *simulateOptions) checkInput() error {
	o.ClusterAsked = o.chosen() || len(o.Files) == 0
	switch {
	case o.known():
		o.Connect = func() (kubernetes.Interface, string, error) {
			err := o.connect()
			return o.client, o.host, err
		}
	case len(o.Files) == 0:
		return usagef("-f: required: name files with nodes and pods, or a cluster with --kubeconfig, --context or the environment variable KUBECONFIG")
	}
	o.Namespace, o.Running = cmp.Or(o.currentNamespace(), corev1.NamespaceDefault), &schedulers.Schedulers{}
	if i := duplicate(o.Files); i >= 0 {
		return usagef("-f: %s is given more than once", o.Files[i])
	}
	if i := duplicate(o.Profiles); i >= 0 {
		return usagef("--config: %s is given more than once", o.Profiles[i])
	}
	return nil
}

// parseTargetLoad reads a multiple such as 1.3, or the same in percent.
func parseTargetLoad(text string) (float64, error) {
	amount, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	load, err := strconv.ParseFloat(strings.TrimSpace(amount), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number: write a multiple of all GPUs, such as 1.3 or 130%%", text)
	}
	if percent {
		load /= 100
	}
	if math.IsNaN(load) || load < 0 || load > trace.MaxTargetLoad {
		return 0, fmt.Errorf("%s must be 0, for the unchanged list, or at most %d times all GPUs", text, trace.MaxTargetLoad)
	}
	return load, nil
}

// duplicate returns the index of a value that stands before it too, or -1.
func duplicate(values []string) int {
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			return i
		}
	}
	return -1
}

// simulate does it all. What is asked for is written to out, and what happens
// meanwhile to status.
func simulate(ctx context.Context, o *simulateOptions, out, status io.Writer) (err error) {
	outDir, err := prepareOutDir(o.outDir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, errNotPlaced) {
			outDir.removeIfNew()
		}
	}()
	simulation, err := simulator.New(ctx, o.Options)
	if err != nil {
		if _, ok := errors.AsType[*simulator.OptionError](err); ok {
			return usageError{err}
		}
		return err
	}
	printNotes(status, simulation.Notes())
	progress := newProgress(status)
	result, err := simulation.Run(ctx, progress.counter(simulation.Pods()))
	progress.end()
	if err != nil {
		return err
	}
	if err := o.write(result, out); err != nil {
		return err
	}
	if !result.AllPlaced() {
		return errNotPlaced
	}
	return nil
}

// write prints the report as --output says, and writes the files of --out.
func (o *simulateOptions) write(r *report.Report, out io.Writer) error {
	if o.outDir != "" {
		if err := r.WriteFiles(o.outDir); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	switch o.output {
	case outputJSON:
		return r.WriteJSON(out)
	case outputYAML:
		return r.WriteYAML(out)
	case outputCSV:
		return r.WriteSummaryCSV(out)
	default:
		return r.WriteTable(out)
	}
}
