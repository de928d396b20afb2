// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
	"github.com/berth-scheduler/berth/pkg/device"
)

// steadyPart is the part of what a scheduler reaches in a burst at which its pods
// arrive in PhaseSteady.
const steadyPart = 0.8

// Environment is the part of a cluster that a benchmark uses.
type Environment interface {
	Namespace() string
	NodeName(planned string) string
	Adopt(pod *corev1.Pod)
	// CheckNode returns an error if the pod has a node that is not the benchmark's.
	CheckNode(pod *corev1.Pod) error
	AdoptService(service *corev1.Service)
	CreateNodes(ctx context.Context, nodes []corev1.Node) error
	DeleteNodes(ctx context.Context) error
	Reset(ctx context.Context) error
	EmptyNamespace(ctx context.Context, name string) error
	Probe(ctx context.Context, schedulerName string) error
}

// Launcher starts the schedulers of a benchmark. Package schedulers has one for a local
// control plane, and one for a cluster where somebody else runs them.
type Launcher interface {
	// Start starts one and returns when it is ready to schedule.
	Start(ctx context.Context, spec *schedulers.Spec, place schedulers.Place) (schedulers.Running, error)
	// Lease returns the lease whose renewals are among the requests that are counted;
	// elected is false if there is none.
	Lease(spec *schedulers.Spec) (namespace, name string, elected bool)
}

// Progress is told how far an experiment is. It may be called from any goroutine.
type Progress interface {
	// Step says what is being done now.
	Step(text string)
	// Rounds says how many of the rounds are over.
	Rounds(done, planned int)
	// Pods says how many of the pods of the present round have been bound or refused.
	Pods(done, planned int)
}

// Options are an experiment's.
type Options struct {
	// Plan returns the workload written out in a format.
	Plan func(workload.RequestFormat) (*workload.Plan, error)
	// Schedulers are in the order of the report. At least one; names are unique.
	Schedulers []*schedulers.Spec
	// Rounds is how often each runs the workload as planned, at least 1, and
	// SteadyRounds how often after that at 80 % of its throughput. A workload whose
	// pods do not all arrive at once has no steady rounds: it is steady itself.
	Rounds, SteadyRounds int
	// RoundTimeout is after how long a round ends that has not settled.
	RoundTimeout time.Duration
	// Limit is that of the benchmark's own client.
	Limit schedulers.Limit
	// Config is how to reach the API server. Its rate limit is not used.
	Config *rest.Config
	// Environment is where the pods go, Launcher starts who places them.
	Environment Environment
	Launcher    Launcher
	// Progress is told what happens.
	Progress Progress
}

// Experiment runs rounds and keeps what they came to.
type Experiment struct {
	options Options
	// client creates and deletes, within the limit; watcher has a connection of its own,
	// so that no event waits behind an answer.
	client, watcher kubernetes.Interface
	limiter         *schedulers.Limiter
	plans           map[workload.RequestFormat]*workload.Plan
	// mixed is whether the schedulers need different nodes.
	mixed bool
	mix   *device.Workload
	// hostileTenant is the hostile namespace; nil without one.
	hostileTenant *hostileTenant
	// hasNodes is whether the nodes of a round are there.
	hasNodes bool
	// begin is when the first pod of the first round was created.
	begin   time.Time
	results []report.Scheduler
	// wrong are placements that cannot be.
	wrong []error
}

// New checks the options and writes the workload out.
func New(options Options) (*Experiment, error) {
	e := &Experiment{options: options, limiter: schedulers.NewLimiter(options.Limit), plans: map[workload.RequestFormat]*workload.Plan{}}
	for _, format := range append([]workload.RequestFormat{workload.Shares}, e.requestFormats()...) {
		plan, err := options.Plan(format)
		if err != nil {
			return nil, err
		}
		if e.plans[format] = plan; len(plan.Arrivals) == 0 {
			return nil, errors.New("the workload has no pods that arrive")
		}
	}
	for _, format := range e.requestFormats() {
		e.mixed = e.mixed || !apiequality.Semantic.DeepEqual(e.plans[format].Nodes, e.plans[e.requestFormats()[0]].Nodes)
	}
	var err error
	keys := device.DefaultNodeKeys()
	// What pods ask for is the same in every format.
	if e.mix, err = device.TypicalWorkload(func(yield func(*corev1.Pod) bool) {
		for i := range e.plans[workload.Shares].Arrivals {
			if !yield(e.plans[workload.Shares].Arrivals[i].Pod) {
				return
			}
		}
	}, &keys); err != nil {
		return nil, err
	}
	limited := rest.CopyConfig(options.Config)
	limited.RateLimiter = e.limiter
	if e.client, err = kubernetes.NewForConfig(limited); err == nil {
		e.watcher, err = ownClient(options.Config)
	}
	if hostile := e.plans[workload.Shares].Hostile; err == nil && hostile != nil {
		// Its requests must wait neither for the benchmark's nor for the watch.
		e.hostileTenant = &hostileTenant{plan: hostile, environment: options.Environment}
		e.hostileTenant.client, err = ownClient(options.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", options.Config.Host, err)
	}
	for _, spec := range options.Schedulers {
		e.results = append(e.results, e.describe(spec))
	}
	return e, nil
}

// ownClient returns a client without a rate limit, and with a connection that it shares
// with no other.
func ownClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.Dial = (&net.Dialer{}).DialContext
	return kubernetes.NewForConfig(config)
}

// describe is a scheduler before its first round.
func (e *Experiment) describe(spec *schedulers.Spec) report.Scheduler {
	s := report.Scheduler{
		Name: spec.Name, Binary: spec.Binary, Version: spec.Version, Profile: spec.Profile, ProfileSHA256: spec.ProfileSHA256,
		ControlOnly: spec.Bare(),
		Notes:       slices.Concat(spec.Notes, e.plans[requestFormatOf(spec)].Notes),
	}
	if spec.Name == names.RandomScheduler {
		s.Control = schedulers.BareBinderName
	}
	return s
}

// requestFormatOf is how a scheduler's pods ask for devices.
func requestFormatOf(spec *schedulers.Spec) workload.RequestFormat {
	if spec.Shares {
		return workload.Shares
	}
	return workload.DevicePlugin
}

// requestFormats are those that the schedulers need.
func (e *Experiment) requestFormats() []workload.RequestFormat {
	var requestFormats []workload.RequestFormat
	for _, spec := range e.options.Schedulers {
		if format := requestFormatOf(spec); !slices.Contains(requestFormats, format) {
			requestFormats = append(requestFormats, format)
		}
	}
	return requestFormats
}

// bursts reports whether all pods arrive at once.
func (e *Experiment) bursts() bool {
	return !slices.ContainsFunc(e.plans[workload.Shares].Arrivals, func(a workload.Arrival) bool { return a.At > 0 })
}

// Run runs all rounds. If it fails, or ctx ends, Results has what was measured until
// then. A placement that cannot be does not end it: the error comes at the end.
func (e *Experiment) Run(ctx context.Context) error {
	count := len(e.options.Schedulers)
	for number := 1; number <= e.options.Rounds; number++ {
		for turn := range count {
			i := (turn + number - 1) % count
			for _, phase := range e.plannedPhases(number) {
				if err := e.turn(ctx, i, number, phase, 0); err != nil {
					return err
				}
			}
		}
	}
	if !e.bursts() || e.hostileTenant != nil {
		return errors.Join(e.wrong...)
	}
	for number := 1; number <= e.options.SteadyRounds; number++ {
		for turn := range count {
			i := (turn + number - 1) % count
			rate, ok := e.steadyRate(i)
			if !ok {
				continue
			}
			if err := e.turn(ctx, i, number, report.PhaseSteady, rate); err != nil {
				return err
			}
		}
	}
	return errors.Join(e.wrong...)
}

// plannedPhases are the phases in which a scheduler runs the workload as planned, in
// the order of their rounds of a number. With a hostile namespace there are two, and
// neither is always the first.
func (e *Experiment) plannedPhases(number int) []report.Phase {
	switch {
	case e.hostileTenant == nil:
		return []report.Phase{report.PhaseAsPlanned}
	case number%2 == 1:
		return []report.Phase{report.PhaseAsPlanned, report.PhaseHostile}
	default:
		return []report.Phase{report.PhaseHostile, report.PhaseAsPlanned}
	}
}

// plannedRounds returns how many rounds are over, of how many.
func (e *Experiment) plannedRounds() (done, planned int) {
	planned = e.options.Rounds * len(e.plannedPhases(1))
	if e.bursts() && e.hostileTenant == nil {
		planned += e.options.SteadyRounds
	}
	for i := range e.results {
		done += len(e.results[i].Rounds)
	}
	return done, planned * len(e.options.Schedulers)
}

// turn runs a round of a scheduler and keeps what it came to.
func (e *Experiment) turn(ctx context.Context, i, number int, phase report.Phase, rate float64) error {
	spec := e.options.Schedulers[i]
	title := fmt.Sprintf("round %d of %d, %s", number, e.options.Rounds, spec.Name)
	switch phase {
	case report.PhaseAsPlanned:
	case report.PhaseHostile:
		title += " beside a hostile namespace"
	case report.PhaseSteady:
		title = fmt.Sprintf("steady round %d of %d, %s at %.0f pods/s", number, e.options.SteadyRounds, spec.Name, rate)
	}
	e.options.Progress.Rounds(e.plannedRounds())
	r := &round{Experiment: e, spec: spec, plan: e.plans[requestFormatOf(spec)], title: title, rate: rate, hostile: phase == report.PhaseHostile}
	result, err := r.run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", title, err)
	}
	result.Number, result.Phase = number, phase
	e.results[i].Rounds = append(e.results[i].Rounds, *result)
	return nil
}

// steadyRate is the rate of a scheduler's steady rounds, in pods a second; false if
// none of its rounds counts.
func (e *Experiment) steadyRate(i int) (float64, bool) {
	var throughputs []float64
	for round := range e.results[i].RoundsIn(report.PhaseAsPlanned) {
		if len(round.Invalid) == 0 {
			throughputs = append(throughputs, round.Metrics[report.Throughput])
		}
	}
	if len(throughputs) == 0 {
		return 0, false
	}
	return steadyPart * report.Median(throughputs), true
}

// Begin is when the first pod of the first round was created; zero before that.
func (e *Experiment) Begin() time.Time { return e.begin }

// Results returns what was measured so far, in the order of Options.Schedulers.
func (e *Experiment) Results() []report.Scheduler { return slices.Clone(e.results) }

// FullRounds is how many rounds as planned every scheduler has behind it.
func (e *Experiment) FullRounds() int {
	full := e.options.Rounds
	for i := range e.results {
		for _, phase := range e.plannedPhases(1) {
			full = min(full, len(slices.Collect(e.results[i].RoundsIn(phase))))
		}
	}
	return full
}

// Sizes returns how many nodes, existing and arriving pods the workload has.
func (e *Experiment) Sizes() (nodes, existing, pods int) {
	plan := e.plans[workload.Shares]
	return len(plan.Nodes), len(plan.Existing), len(plan.Arrivals)
}

// prepareNodes clears the namespace, and brings the nodes there. Those that are there
// stay if all schedulers have the same, and are made anew in every round if not: else
// some schedulers would begin on a cluster that is still busy with new nodes, and
// others would not.
func (e *Experiment) prepareNodes(ctx context.Context, nodes []corev1.Node) error {
	if err := e.options.Environment.Reset(ctx); err != nil {
		return err
	}
	if e.hostileTenant != nil {
		// Its namespaces are there in every round.
		for _, namespace := range []string{workload.HostileNamespace, workload.AccompliceNamespace} {
			if err := e.options.Environment.EmptyNamespace(ctx, namespace); err != nil {
				return err
			}
		}
	}
	if e.hasNodes && !e.mixed {
		return nil
	}
	if e.hasNodes {
		e.hasNodes = false
		if err := e.options.Environment.DeleteNodes(ctx); err != nil {
			return err
		}
	}
	if err := e.options.Environment.CreateNodes(ctx, nodes); err != nil {
		return err
	}
	e.hasNodes = true
	return nil
}
