// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulator lets profiles place the pods of a trace, or the pending pods of
// a cluster, on nodes in memory, and compares what they come to. It is all of
// `kubectl berth simulate` but its flags and its terminal:
//
//	files, API server --New--> Simulation --Run--> report.Report
//
// The packages below it do the work: trace and cluster read the input, engine
// schedules, and report measures and prints.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
	"github.com/berth-scheduler/berth/pkg/version"
)

// Options say what is simulated.
type Options struct {
	// Files are CSV files of a trace, and YAML or JSON files of objects; - is Stdin.
	Files []string
	Stdin io.Reader
	// Namespace is that of objects in files that name none.
	Namespace string
	// Connect returns a client of the cluster that is read if the files have no nodes, and
	// its address; nil if there is no such cluster. ClusterAsked is whether a flag
	// names it: then it is read in any case.
	Connect      func() (client kubernetes.Interface, host string, err error)
	ClusterAsked bool

	// Profiles are KubeSchedulerConfiguration files, which are compared. Without any, the
	// profile is that of the scheduler that serves the pods, as Running finds it.
	Profiles []string
	Running  *schedulers.Schedulers
	// SchedulerName is the profile of each file to use. Empty: the only one, or for
	// each pod the one that it names.
	SchedulerName string
	// ExpectedWorkload is what strategies expect that read an expected workload.
	ExpectedWorkload ExpectedWorkload
	// KeepShares leaves shares of devices as they are for profiles without GPUDevice,
	// which cannot place them. Otherwise each becomes a whole device.
	KeepShares bool
	// Preemption lets pods evict others.
	Preemption bool

	// Seeds are one for each run.
	Seeds []int64
	// TargetLoad is what the pods of a trace are brought to ask for, as a multiple of
	// all devices; see [trace.Arrivals]. TargetLoadSet is whether a flag asks
	// for that, which is an error for pods of a cluster.
	TargetLoad    float64
	TargetLoadSet bool
	// Parallel is how many goroutines there are. The results do not depend on it.
	Parallel int
	// Placements keeps what became of each pod of a trace, too, for the files of the
	// report: it is most of a run.
	Placements bool
}

// ExpectedWorkload is where a strategy has its expected workload from.
type ExpectedWorkload string

const (
	// WorkloadOfProfile is what the profile says, given or learned.
	WorkloadOfProfile ExpectedWorkload = "profile"
	// WorkloadOfInput is the pods that will come, where the profile gives none.
	WorkloadOfInput ExpectedWorkload = "oracle"
	// WorkloadBoth is both, beside each other.
	WorkloadBoth ExpectedWorkload = "both"
)

// OptionError is an option that does not go with the others, or with the input.
type OptionError struct {
	// Option is the flag of `kubectl berth simulate` that sets it.
	Option string
	// Err is what is wrong with it.
	Err error
}

// Error returns "FLAG: PROBLEM".
func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

func optionErrorf(option, format string, args ...any) error {
	return &OptionError{Option: option, Err: fmt.Errorf(format, args...)}
}

// Simulation is every profile with every seed on the same input.
type Simulation struct {
	options  Options
	input    *input
	profiles []*profile
	// capacity is that of all devices, in thousandths.
	capacity int64
	// perRun is how many pods arrive in a run, or about as many.
	perRun int
	report report.Report
}

// New reads the profiles and the input, and checks that they make sense together.
func New(ctx context.Context, options Options) (*Simulation, error) {
	s := &Simulation{options: options}
	var err error
	if s.profiles, err = loadProfiles(&options); err != nil {
		return nil, err
	}
	if s.input, err = readInput(ctx, &options); err != nil {
		return nil, err
	}
	if len(s.profiles) == 0 {
		if s.profiles, err = s.loadRunning(); err != nil {
			return nil, err
		}
	}
	s.report = report.Report{
		FormatVersion: report.FormatVersion, Berth: version.String(), Kubernetes: kubeversion.Get().GitVersion,
		Inputs:   s.input.files,
		Workload: report.Workload{Pods: s.input.arriving(), TargetLoad: s.targetLoad(), Seeds: options.Seeds},
		Notes:    s.input.notes,
	}
	for _, p := range s.profiles {
		if err := s.prepare(p); err != nil {
			return nil, err
		}
	}
	// The cluster is described as the first profile sees it.
	s.report.Cluster = report.ClusterOf(s.input.cluster.Nodes(), s.input.cluster.Bound(), s.profiles[0].keys)
	s.capacity = s.report.Cluster.Devices * device.MilliPerDevice
	s.perRun = s.input.arriving()
	if s.input.fromTrace() {
		// A wrong load is wrong for every seed.
		order, err := trace.Arrivals(s.input.trace.Pods, s.capacity, s.targetLoad(), options.Seeds[0])
		if err != nil {
			return nil, &OptionError{"--target-load", err}
		}
		s.perRun = len(order)
	}
	return s, nil
}

// Notes returns what the user should know of the input, a line each.
func (s *Simulation) Notes() []string { return s.report.Notes }

// Pods returns about how many pods will arrive in all runs.
func (s *Simulation) Pods() int { return s.perRun * len(s.profiles) * len(s.options.Seeds) }

// targetLoad is 0 for pods that are no trace's.
func (s *Simulation) targetLoad() float64 {
	if !s.input.fromTrace() {
		return 0
	}
	return s.options.TargetLoad
}

// prepare fits the profile to the input.
func (s *Simulation) prepare(p *profile) error {
	p.cluster = s.input.cluster
	if !s.options.KeepShares && s.input.fromTrace() && !p.knowsShares() {
		p.name += "+whole"
		p.whole = s.input.trace.WholeDevices()
		p.cluster = s.input.withWholeDevices(p.whole)
	}
	if err := s.checkSchedulerName(p); err != nil {
		return err
	}
	var err error
	if p.workload, err = device.TypicalWorkload(s.input.usualPods(), p.keys); err != nil {
		return err
	}
	if p.oracle && p.workload != nil {
		p.expect(p.workload)
	}
	return nil
}

// goroutines returns how many runs there are to be at a time, and how many
// goroutines each of them has: several runs side by side are better than one that
// is divided, and cores are left for the latter only where runs are few.
func (s *Simulation) goroutines() (runs, perRun int) {
	runs = max(1, min(s.options.Parallel, len(s.profiles)*len(s.options.Seeds)))
	return runs, s.options.Parallel / runs
}

// Run does all runs, some at a time, and returns the report. progress is called for
// each pod that has arrived, concurrently. The first error ends all runs.
func (s *Simulation) Run(ctx context.Context, progress func(pods int)) (*report.Report, error) {
	relaxGC()
	seeds := s.options.Seeds
	runs := make([][]report.Run, len(s.profiles))
	warnings := make([][]string, len(s.profiles)*len(seeds))
	atOnce, parallelism := s.goroutines()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, p := range s.profiles {
		runs[i] = make([]report.Run, len(seeds))
		for j, seed := range seeds {
			group.Go(func() (err error) {
				if groupCtx.Err() != nil {
					return groupCtx.Err() // what is left over is not begun
				}
				if runs[i][j], warnings[i*len(seeds)+j], err = s.run(groupCtx, p, seed, parallelism, progress); err != nil {
					return fmt.Errorf("%s: %w", p.file.Path, err)
				}
				return nil
			})
		}
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	if err != nil {
		return nil, err
	}
	for i, p := range s.profiles {
		s.report.Profiles = append(s.report.Profiles, p.report(runs[i], !s.input.fromTrace()))
	}
	s.addNotes(slices.Concat(warnings...))
	return &s.report, nil
}

// addNotes adds what plugins warned of, each once.
func (s *Simulation) addNotes(warnings []string) {
	const most = 20
	seen, before, more := sets.New(s.report.Notes...), len(s.report.Notes), 0
	for _, warning := range warnings {
		switch {
		case seen.Has(warning):
		case len(s.report.Notes)-before < most:
			s.report.Notes = append(s.report.Notes, warning)
		default:
			more++
		}
		seen.Insert(warning)
	}
	if more > 0 {
		s.report.Notes = append(s.report.Notes, fmt.Sprintf("%d further warnings of plugins", more))
	}
}

// run is one simulation. The warnings are those that plugins recorded.
func (s *Simulation) run(ctx context.Context, p *profile, seed int64, parallelism int, progress func(pods int)) (run report.Run, warnings []string, err error) {
	sim, err := engine.New(ctx, engine.Options{
		Config: p.config, SchedulerName: p.schedulerName, Seed: uint64(seed), //nolint:gosec // seeds are not negative
		Parallelism: parallelism, Preemption: s.options.Preemption,
	}, p.cluster)
	if err != nil {
		return run, nil, err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()

	recorder := report.NewRecorder(p.cluster.Nodes(), p.cluster.Bound(), p.keys, p.workload)
	pods, err := s.arrivals(sim, p, seed)
	if err != nil {
		return run, nil, err
	}
	// Interrupted between two pods, and not within a scheduling cycle.
	cycle := context.WithoutCancel(ctx)
	for arrival := range pods {
		if err := ctx.Err(); err != nil {
			return run, nil, err
		}
		if err := s.schedule(cycle, sim, recorder, &arrival); err != nil {
			return run, nil, err
		}
		progress(len(arrival.pods))
	}
	if err := s.recordUnserved(p, sim, recorder); err != nil {
		return run, nil, err
	}
	run = recorder.Run(seed)
	if s.input.fromTrace() && !s.options.Placements {
		run.Placements = nil
	}
	return run, slices.Concat(s.keysWithoutEffect(p, sim), sim.Warnings()), nil
}

// arrival is one pod that arrives, or the members of a PodGroup that arrive together.
type arrival struct {
	pods []*corev1.Pod
	// asked is what the one pod asks for, if that is not what it says.
	asked *corev1.Pod
}

// schedule has an arrival placed, and records what becomes of it.
func (s *Simulation) schedule(ctx context.Context, sim *engine.Engine, recorder *report.Recorder, a *arrival) error {
	if sim.IsMember(a.pods[0]) {
		return s.schedulePodGroup(ctx, sim, recorder, a.pods)
	}
	pod := a.pods[0]
	result, err := sim.Schedule(ctx, pod)
	if err != nil {
		return err
	}
	if err := recorder.Record(report.Event{
		Pod: result.Pod, Asked: a.asked, Node: result.Node, Message: result.Message, Victims: result.Victims, Beside: s.input.beside(pod),
		Claimed: claimed(sim, &result),
	}); err != nil {
		return err
	}
	if result.Node == "" && s.input.fromTrace() {
		return sim.Delete(ctx, pod.Namespace, pod.Name)
	}
	return nil
}

// claimed returns the devices that a pod that was placed has by its claims.
func claimed(sim *engine.Engine, result *engine.Result) []cluster.ClaimDevice {
	var devices []cluster.ClaimDevice
	if result.Node != "" {
		for _, claim := range sim.Claims(result.Pod) {
			devices = append(devices, cluster.DevicesOf(claim)...)
		}
	}
	return devices
}

// schedulePodGroup is schedule for the members of a PodGroup.
func (s *Simulation) schedulePodGroup(ctx context.Context, sim *engine.Engine, recorder *report.Recorder, pods []*corev1.Pod) error {
	group, err := sim.SchedulePodGroup(ctx, pods)
	if err != nil {
		return err
	}
	name := pods[0].Namespace + "/" + *pods[0].Spec.SchedulingGroup.PodGroupName
	for i, result := range group.Members {
		if err := recorder.Record(report.Event{
			Pod: result.Pod, Node: result.Node, Message: result.Message, Victims: result.Victims, Beside: s.input.beside(pods[i]),
			PodGroup: name, Proposed: result.Proposed, Claimed: claimed(sim, &result),
		}); err != nil {
			return err
		}
	}
	recorder.RecordPodGroup(s.podGroup(name, pods[0], group.Message))
	return nil
}

// podGroup says what is known of a PodGroup but for its members that arrived.
func (s *Simulation) podGroup(name string, member *corev1.Pod, message string) report.PodGroup {
	g := report.PodGroup{PodGroup: name, Message: message, Beside: s.input.beside(member)}
	for _, group := range s.input.cluster.PodGroups() {
		if group.Namespace+"/"+group.Name == name {
			g.MinCount = group.MinCount
		}
	}
	for _, pod := range s.input.cluster.Bound() {
		if pod.Namespace == member.Namespace && pod.Spec.SchedulingGroup != nil && ptr.Equal(pod.Spec.SchedulingGroup.PodGroupName, member.Spec.SchedulingGroup.PodGroupName) {
			g.Bound++
		}
	}
	return g
}

// arrivals are the pods of a run in their order. Those of a trace are made as they come:
// thousands of objects that will fail need not exist at one time.
func (s *Simulation) arrivals(sim *engine.Engine, p *profile, seed int64) (iter.Seq[arrival], error) {
	if !s.input.fromTrace() {
		ordered, err := sim.InQueueOrder(slices.DeleteFunc(s.input.cluster.Pending(), func(pod *corev1.Pod) bool { return !sim.Handles(pod) }))
		return func(yield func(arrival) bool) {
			for _, pods := range ordered {
				if !yield(arrival{pods: pods}) {
					return
				}
			}
		}, err
	}
	order, err := trace.Arrivals(s.input.trace.Pods, s.capacity, s.targetLoad(), seed)
	return func(yield func(arrival) bool) {
		for i := range order {
			pod, asked := order[i].Object(p.schedulerName), (*corev1.Pod)(nil)
			if p.whole != nil {
				pod, asked = p.whole.Pod(&order[i], p.schedulerName), pod
			}
			if !yield(arrival{[]*corev1.Pod{pod}, asked}) {
				return
			}
		}
	}, err
}
