// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	kubeversion "k8s.io/component-base/version"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/cluster"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
	"github.com/berth-scheduler/berth/pkg/version"
)

// experiment is every profile with every seed on the same input.
type experiment struct {
	options    *simulateOptions
	input      *input
	contenders []prepared
	// capacity is that of all devices, in thousandths.
	capacity int64
	// perRun is how many pods arrive in a run, or about as many.
	perRun int
	report report.Report
}

// prepared is a contender with what depends on the input.
type prepared struct {
	contender

	nodeKeys *device.NodeKeys
	// measure is the workload against which fragmentation is measured; nil if no pod
	// asks for devices.
	measure *device.Workload
	// effective is the configuration to run.
	effective *schedconfig.KubeSchedulerConfiguration
	// cluster is the input's, in the form that the profile understands.
	cluster *cluster.Cluster
	// whole writes the pods of the trace for a profile that knows no shares; nil for
	// one that does.
	whole *trace.WholeDevices
}

// newExperiment checks that the input and the profiles make sense together.
func newExperiment(o *simulateOptions, in *input, contenders []contender) (*experiment, error) {
	e := &experiment{options: o, input: in}
	e.report = report.Report{
		FormatVersion: report.FormatVersion, Berth: version.String(), Kubernetes: kubeversion.Get().GitVersion,
		Inputs:   in.files,
		Workload: report.Workload{Pods: in.arriving(), TargetLoad: e.targetLoad(), Seeds: o.seeds},
		Notes:    in.notes,
	}
	for _, c := range contenders {
		p, err := e.prepare(c)
		if err != nil {
			return nil, err
		}
		e.contenders = append(e.contenders, p)
	}
	// The cluster is described as the first profile sees it.
	e.report.Cluster = report.ClusterOf(in.cluster.Nodes(), in.cluster.Bound(), e.contenders[0].nodeKeys)
	e.capacity = e.report.Cluster.Devices * device.MilliPerDevice
	e.perRun = in.arriving()
	if in.fromTrace() {
		// What is wrong with the load is so for every seed.
		order, err := trace.Arrivals(in.trace.Pods, e.capacity, e.targetLoad(), o.seeds[0])
		if err != nil {
			return nil, usagef("--target-load: %w", err)
		}
		e.perRun = len(order)
	}
	return e, nil
}

// targetLoad is 0 for pods that are no trace's.
func (e *experiment) targetLoad() float64 {
	if !e.input.fromTrace() {
		return 0
	}
	return e.options.targetLoad
}

func (e *experiment) prepare(c contender) (prepared, error) {
	p := prepared{contender: c, nodeKeys: c.keys(), effective: c.config, cluster: e.input.cluster}
	if e.options.shares == sharesWhole && e.input.fromTrace() && !c.knowsShares() {
		p.name += "+whole"
		p.whole = e.input.trace.WholeDevices()
		p.cluster = e.input.withWholeDevices(p.whole)
	}
	if c.schedulerName == "" && e.input.fromTrace() {
		return p, usagef("--scheduler-name: %s has several profiles, and the pods of a trace name none: choose one of %s", c.file.Path, commaSeparated(c.profileNames()))
	}
	if err := e.checkNames(&c); err != nil {
		return p, err
	}
	var err error
	if p.measure, err = e.typical(p.nodeKeys); err != nil {
		return p, err
	}
	if c.oracle && p.measure != nil {
		if p.effective, err = engine.ExpectWorkload(c.config, workloadArgs(p.measure)); err != nil {
			return p, fmt.Errorf("%s: expecting the workload of the input: %w", c.file.Path, err)
		}
	}
	return p, nil
}

// checkNames looks whether pending pods name the profiles of a file, where that
// decides which profile schedules them.
func (e *experiment) checkNames(c *contender) error {
	if c.schedulerName != "" || e.input.fromTrace() {
		return nil
	}
	pending, others := e.input.cluster.Pending(), 0
	for _, pod := range pending {
		if !slices.Contains(c.profileNames(), pod.Spec.SchedulerName) {
			others++
		}
	}
	switch {
	case others == len(pending):
		return usagef("--scheduler-name: no pending pod names a profile of %s: choose the one for all of them, of %s", c.file.Path, commaSeparated(c.profileNames()))
	case others > 0:
		e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s: %d of %d pending pods are left out: their spec.schedulerName is none of %s",
			c.file.Path, others, len(pending), commaSeparated(c.profileNames())))
	}
	return nil
}

// typical is the workload of the usual pods, as profiles with these keys see them.
func (e *experiment) typical(keys *device.NodeKeys) (*device.Workload, error) {
	for i := range e.contenders {
		if reflect.DeepEqual(e.contenders[i].nodeKeys, keys) {
			return e.contenders[i].measure, nil
		}
	}
	return report.Typical(e.usualPods(), keys)
}

// usualPods are the pods that stand for what is expected: those of the trace, as in
// the paper, and all of a cluster, bound ones too.
func (e *experiment) usualPods() iter.Seq[*corev1.Pod] {
	if !e.input.fromTrace() {
		return slices.Values(e.input.cluster.Pods())
	}
	return func(yield func(*corev1.Pod) bool) {
		for i := range e.input.trace.Pods {
			if !yield(e.input.trace.Pods[i].Object("")) {
				return
			}
		}
	}
}

// total is about how many pods will arrive in all runs.
func (e *experiment) total() int {
	return e.perRun * len(e.contenders) * len(e.options.seeds)
}

// goroutines returns how many runs there are to be at a time, and how many
// goroutines each of them has: several runs side by side are better than one that
// is divided, and cores are left for the latter only where runs are few.
func (e *experiment) goroutines() (runs, perRun int) {
	runs = max(1, min(e.options.parallel, len(e.contenders)*len(e.options.seeds)))
	return runs, e.options.parallel / runs
}

// run does all runs, some at a time, and fills the report. The first error ends
// the others.
func (e *experiment) run(ctx context.Context, progress *progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct{ contender, seed int }
	jobs := make(chan job)
	results := make([][]report.Run, len(e.contenders))
	for i := range results {
		results[i] = make([]report.Run, len(e.options.seeds))
	}
	notes := make([][]string, len(e.contenders)*len(e.options.seeds))
	relaxGC()
	atOnce, parallelism := e.goroutines()
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for j := range jobs {
				if ctx.Err() != nil {
					continue // what is left over is not begun
				}
				c := &e.contenders[j.contender]
				run, warnings, err := e.runOnce(ctx, c, e.options.seeds[j.seed], parallelism, progress)
				if err != nil {
					cancel(fmt.Errorf("%s: %w", c.file.Path, err))
					continue
				}
				results[j.contender][j.seed] = run
				notes[j.contender*len(e.options.seeds)+j.seed] = warnings
			}
		})
	}
	for c := range e.contenders {
		for s := range e.options.seeds {
			jobs <- job{c, s}
		}
	}
	close(jobs)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted")
		}
		return err
	}
	for i := range e.contenders {
		e.report.Profiles = append(e.report.Profiles, e.profile(&e.contenders[i], results[i]))
	}
	e.addNotes(slices.Concat(notes...))
	return nil
}

// addNotes adds what plugins warned of, each once.
func (e *experiment) addNotes(warnings []string) {
	const most = 20
	more := 0
	for _, warning := range warnings {
		switch {
		case slices.Contains(e.report.Notes, warning):
		case len(e.report.Notes) >= len(e.input.notes)+most:
			more++
		default:
			e.report.Notes = append(e.report.Notes, warning)
		}
	}
	if more > 0 {
		e.report.Notes = append(e.report.Notes, fmt.Sprintf("%d further warnings of plugins", more))
	}
}

func (e *experiment) profile(c *prepared, runs []report.Run) report.Profile {
	p := report.Profile{
		Name: c.name, File: c.file, SchedulerName: strings.Join(c.used(), ","),
		ExpectedWorkload: report.WorkloadFromProfile,
	}
	if c.oracle {
		p.ExpectedWorkload = report.WorkloadFromOracle
	}
	if c.whole != nil {
		p.Shares = report.SharesAsWholeDevices
	}
	p.SetRuns(runs, !e.input.fromTrace())
	return p
}

// runOnce is one simulation. The warnings are those that plugins recorded.
func (e *experiment) runOnce(ctx context.Context, c *prepared, seed int64, parallelism int, progress *progress) (run report.Run, warnings []string, err error) {
	sim, err := engine.New(ctx, engine.Options{
		Config: c.effective, SchedulerName: c.schedulerName, Seed: uint64(seed), //nolint:gosec // seeds are not negative
		Parallelism: parallelism, Preemption: e.options.preemption,
	}, c.cluster)
	if err != nil {
		return run, nil, err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()

	recorder := report.NewRecorder(c.cluster.Nodes(), c.cluster.Bound(), c.nodeKeys, c.measure)
	pods, err := e.arrivals(sim, c, seed)
	if err != nil {
		return run, nil, err
	}
	// Interrupted between two pods, and not within a scheduling cycle.
	cycle := context.WithoutCancel(ctx)
	for pod, asked := range pods {
		if err := ctx.Err(); err != nil {
			return run, nil, err
		}
		result, err := sim.Schedule(cycle, pod)
		if err != nil {
			return run, nil, err
		}
		if err := recorder.Record(report.Event{
			Pod: result.Pod, Asked: asked, Node: result.Node, Message: result.Message, Victims: result.Victims,
		}); err != nil {
			return run, nil, err
		}
		if result.Outcome != engine.Bound && e.input.fromTrace() {
			if err := sim.Delete(cycle, pod.Namespace, pod.Name); err != nil {
				return run, nil, err
			}
		}
		progress.add(1)
	}
	run = recorder.Run(seed)
	if e.input.fromTrace() && e.options.outDir == "" {
		run.Placements = nil // nobody will see them, and they are most of a run
	}
	return run, warningsOf(sim), nil
}

// arrivals are the pods of a run in their order, each with what it asks for if that
// is not what it says. Those of a trace are made as they come: thousands of objects
// that will fail need not exist at one time.
func (e *experiment) arrivals(sim *engine.Engine, c *prepared, seed int64) (iter.Seq2[*corev1.Pod, *corev1.Pod], error) {
	if !e.input.fromTrace() {
		ordered, err := sim.InQueueOrder(slices.DeleteFunc(slices.Clone(e.input.cluster.Pending()), func(pod *corev1.Pod) bool {
			return !sim.Handles(pod)
		}))
		return func(yield func(pod, asked *corev1.Pod) bool) {
			for _, pod := range ordered {
				if !yield(pod, nil) {
					return
				}
			}
		}, err
	}
	order, err := trace.Arrivals(e.input.trace.Pods, e.capacity, e.targetLoad(), seed)
	return func(yield func(pod, asked *corev1.Pod) bool) {
		for i := range order {
			pod, asked := order[i].Object(c.schedulerName), (*corev1.Pod)(nil)
			if c.whole != nil {
				pod, asked = c.whole.Pod(&order[i], c.schedulerName), pod
			}
			if !yield(pod, asked) {
				return
			}
		}
	}, err
}

// warningsOf are the warnings of plugins, a line each.
func warningsOf(sim *engine.Engine) []string {
	recorded, more := sim.Warnings()
	lines := make([]string, 0, len(recorded)+1)
	for i := range recorded {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", recorded[i].Object, recorded[i].Note, recorded[i].Reason))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d further warnings of plugins were not kept", more))
	}
	return lines
}
