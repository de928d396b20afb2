// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/schedulers"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

const (
	// existingTimeout is how long the existing pods may take to be seen.
	existingTimeout = time.Minute
	// sampleInterval lies between two looks at a scheduler's counters, and sampleTimeout
	// is how long they may take to come to rest: events follow the bindings. They rest
	// once they have been the same in so many looks, one after the other.
	sampleInterval = 250 * time.Millisecond
	sampleTimeout  = 10 * time.Second
	sampleLooks    = 4
)

// round is one run of the workload through one scheduler.
type round struct {
	*Experiment
	spec  *schedulers.Spec
	plan  *workload.Plan
	title string
	// rate is that of a steady round, 0 otherwise.
	rate float64
	// hostile is whether the hostile namespace writes meanwhile.
	hostile bool

	recorder *recorder
	creator  *creator
	deleter  *deleter
	running  schedulers.Running
	renewals *renewals
	// start is when the first creation was sent.
	start time.Time
	// timedOut is whether the round ended before it had settled, at state last.
	timedOut bool
	last     state
}

// usage is what a scheduler did between two samples, both nil where nothing can be
// seen. renewed are the renewals of its lease meanwhile; rested is whether the counters
// had come to rest at both.
type usage struct {
	before, after *schedulers.Sample
	renewed       int64
	rested        bool
}

// awaitRunning waits until the scheduler places pods and, beside a hostile namespace,
// until it has tried what that one has waiting.
func (r *round) awaitRunning(ctx context.Context) (err error) {
	if err := r.options.Environment.Probe(ctx, r.spec.Name); err != nil {
		return r.because(err)
	}
	if namespace, name, elected := r.options.Launcher.Lease(r.spec); elected {
		if r.renewals, err = watchRenewals(ctx, r.watcher, namespace, name); err != nil {
			return err
		}
	}
	if r.hostile && !r.spec.Bare() { // which binds none of them
		if err := r.hostileTenant.awaitTried(ctx); err != nil {
			return r.because(err)
		}
	}
	return nil
}

// run prepares, measures and stops.
func (r *round) run(ctx context.Context) (result *report.Round, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := r.options.Progress
	progress.Step(r.title + ": preparing")
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	progress.Step(r.title + ": starting the scheduler")
	if r.running, err = r.options.Launcher.Start(ctx, r.spec, r.place()); err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			_, stopErr := r.running.Stop()
			err = errors.Join(err, stopErr)
		}
	}()
	if err := r.awaitRunning(ctx); err != nil {
		return nil, err
	}
	before, err := r.sample(ctx)
	if err != nil {
		return nil, err
	}
	requestsBefore, delayedBefore := r.limiter.Counts()
	progress.Step(r.title)
	stopWriting := func() (float64, error) { return 0, nil }
	if r.hostile {
		stopWriting = r.hostileTenant.start(ctx, r.spec)
	}
	err = r.measure(ctx)
	hostileWrites, hostileErr := stopWriting()
	if err := errors.Join(err, hostileErr); err != nil {
		return nil, r.because(err)
	}
	requestsAfter, delayedAfter := r.limiter.Counts()
	after, err := r.sample(ctx)
	if err != nil {
		return nil, r.because(err)
	}
	stopped = true
	rbacErrors, err := r.running.Stop()
	if err != nil {
		return nil, err
	}
	seen := observation{
		qps: r.options.Limit.QPS, rbacErrors: rbacErrors,
		requests: float64(requestsAfter - requestsBefore), delayed: float64(delayedAfter - delayedBefore),
	}
	result = r.evaluate(&seen, usage{
		before: before.sample, after: after.sample,
		renewed: after.renewed - before.renewed, rested: before.rested && after.rested,
	})
	if r.hostile {
		result.Metrics[report.HostileWrites] = hostileWrites
	}
	return result, nil
}

// because is the scheduler's own end, if that is why something failed, and otherwise
// the error.
func (r *round) because(err error) error {
	select {
	case failure := <-r.running.Failed():
		return failure
	default:
		return err
	}
}

// place is where the scheduler's pods go.
func (r *round) place() schedulers.Place {
	place := schedulers.Place{Namespace: r.options.Environment.Namespace()}
	for i := range r.plan.Nodes {
		place.Nodes = append(place.Nodes, r.options.Environment.NodeName(r.plan.Nodes[i].Name))
	}
	return place
}

// prepare clears the environment, and brings nodes, Services and existing pods there.
func (r *round) prepare(ctx context.Context) error {
	environment := r.options.Environment
	if err := r.prepareNodes(ctx, r.plan.Nodes); err != nil {
		return err
	}
	for i := range r.plan.Services {
		service := r.plan.Services[i].DeepCopy()
		environment.AdoptService(service)
		if _, err := r.client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Service %s: %w", service.Name, err)
		}
	}
	r.creator = &creator{client: r.client}
	r.deleter = &deleter{client: r.client}
	var names []string
	for i := range r.plan.Arrivals {
		arrival := &r.plan.Arrivals[i]
		pod := arrival.Pod.DeepCopy()
		environment.Adopt(pod)
		pod.Spec.SchedulerName = r.spec.Name
		r.creator.pods = append(r.creator.pods, pod)
		r.deleter.lifetimes = append(r.deleter.lifetimes, arrival.Lifetime)
		names = append(names, pod.Name)
	}
	r.deleter.pods = r.creator.pods
	switch {
	case r.rate > 0:
		for i := range r.creator.pods {
			r.creator.at = append(r.creator.at, time.Duration(float64(i)/r.rate*float64(time.Second)))
		}
	case !r.bursts():
		for i := range r.plan.Arrivals {
			r.creator.at = append(r.creator.at, r.plan.Arrivals[i].At)
		}
	}
	existing := &creator{client: r.client}
	for i := range r.plan.Existing {
		pod := r.plan.Existing[i].DeepCopy()
		environment.Adopt(pod)
		existing.pods = append(existing.pods, pod)
		names = append(names, pod.Name)
	}
	r.recorder = newRecorder(names)
	r.recorder.check = environment.CheckNode
	if err := r.recorder.watch(ctx, r.watcher, environment.Namespace()); err != nil {
		return err
	}
	if err := existing.run(ctx, func(time.Time) {}); err != nil {
		return err
	}
	if r.hostile {
		if err := r.hostileTenant.settleIn(ctx, r.spec); err != nil {
			return err
		}
	}
	return r.awaitExisting(ctx, len(existing.pods))
}

// awaitExisting waits until the watch has told of all existing pods. A scheduler that
// is started after that finds them in its first list; one that runs already gets
// them before its probe pod.
func (r *round) awaitExisting(ctx context.Context, count int) error {
	err := wait.PollUntilContextTimeout(ctx, settlePoll, existingTimeout, true, func(context.Context) (bool, error) {
		return r.recorder.progress().bound >= count, nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%d of %d existing pods are not bound after %v", count-r.recorder.progress().bound, count, existingTimeout)
	}
	return nil
}

// look is a look at a scheduler's counters.
type look struct {
	// sample is nil where nothing can be seen.
	sample *schedulers.Sample
	// renewed is how often the scheduler's lease had been renewed by then.
	renewed int64
	// same is how many looks, up to this one, found the same; rested is whether that
	// is enough.
	same   int
	rested bool
}

// otherWrites are the scheduler's writes but the renewals of its lease.
func (l look) otherWrites() float64 { return l.sample.Writes - float64(l.renewed) }

// sample reads the scheduler's counters once they have come to rest, or when
// sampleTimeout is over.
func (r *round) sample(ctx context.Context) (look, error) {
	var now look
	err := wait.PollUntilContextTimeout(ctx, sampleInterval, sampleTimeout, true, func(context.Context) (bool, error) {
		sample, err := r.running.Sample(ctx)
		if err != nil || sample == nil {
			now = look{}
			return true, err
		}
		earlier := now
		now = look{sample: sample, same: 1}
		if r.renewals != nil {
			now.renewed = r.renewals.count.Load()
		}
		// A renewal may be counted before it is seen, or the other way round. Looks come
		// more often than renewals, so that not all of them can be amid one.
		if earlier.sample != nil && now.otherWrites() == earlier.otherWrites() {
			now.same = earlier.same + 1
		}
		now.rested = now.same >= sampleLooks
		return now.rested, nil
	})
	switch {
	case ctx.Err() != nil:
		return look{}, context.Cause(ctx)
	case wait.Interrupted(err):
		return now, nil
	}
	return now, err
}

// measure creates the pods and returns when the queue has settled, or the round's time
// is over. Nothing is under way then.
func (r *round) measure(ctx context.Context) error {
	// A round that times out ends amid its creations: what they write down is read
	// when they are over.
	var working sync.WaitGroup
	defer working.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.deleter.deadline = time.Now().Add(r.options.RoundTimeout)
	working.Go(func() { r.deleter.run(ctx, r.recorder.bindings) })
	created, started := make(chan error, 1), make(chan time.Time, 1)
	working.Go(func() { created <- r.creator.run(ctx, func(at time.Time) { started <- at }) })
	r.start = <-started
	if r.begin.IsZero() {
		r.begin = r.start
	}
	return r.settle(ctx, created)
}

// spreads reports whether some of the pods must be spread evenly.
func spreads(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return len(pod.Spec.TopologySpreadConstraints) > 0 })
}

// settle waits until the round is over.
func (r *round) settle(ctx context.Context, created <-chan error) error {
	existing, planned := len(r.plan.Existing), len(r.creator.pods)
	timeout := time.NewTimer(r.options.RoundTimeout)
	defer timeout.Stop()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	now := state{planned: planned + existing, spread: spreads(r.creator.pods)}
	for {
		select {
		case err := <-created:
			if err != nil {
				return err
			}
			now.created, created = true, nil
		case err := <-r.running.Failed():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			r.timedOut = true
		case <-poll.C:
		}
		var failure error
		now.counts = r.recorder.progress()
		if now.leaving, failure = r.deleter.status(); failure != nil {
			return failure
		}
		if failure = r.recorder.misplaced(); failure != nil {
			return failure
		}
		r.last = now
		r.options.Progress.Pods(now.bound+now.lost+now.refused-existing, planned)
		if r.timedOut || now.outcomeAt(time.Now()) != underway {
			return nil
		}
	}
}
