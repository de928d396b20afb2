// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/bench/contender"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/bench/workload"
)

const (
	// existingPatience is how long the existing pods may take to be seen.
	existingPatience = time.Minute
	// samplePause lies between two looks at a scheduler's counters, and samplePatience
	// is how long they may take to come to rest: events follow the bindings.
	samplePause    = 250 * time.Millisecond
	samplePatience = 10 * time.Second
)

// round is one run of the workload through one scheduler.
type round struct {
	*Experiment
	spec  *contender.Spec
	plan  *workload.Plan
	title string
	// rate is that of a steady round, 0 otherwise.
	rate float64

	recorder *recorder
	creator  *creator
	reaper   *reaper
	running  contender.Running
	renewals *renewals
	// start is when the first creation was sent.
	start time.Time
	// timedOut is whether the round ended before it had settled, at state last.
	timedOut bool
	last     state
}

// usage is what a scheduler did between two samples.
type usage struct{ before, after *contender.Sample }

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
	if r.running, err = r.options.Schedulers.Start(ctx, r.spec, r.place()); err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			_, stopErr := r.running.Stop()
			err = errors.Join(err, stopErr)
		}
	}()
	if err := r.options.Ground.Probe(ctx, r.spec.Name); err != nil {
		return nil, r.because(err)
	}
	if namespace, name, elected := r.options.Schedulers.Lease(r.spec); elected {
		if r.renewals, err = watchRenewals(ctx, r.watcher, namespace, name); err != nil {
			return nil, err
		}
	}
	var used usage
	var renewedBefore, renewedAfter int64
	if used.before, renewedBefore, err = r.sample(ctx); err != nil {
		return nil, err
	}
	requestsBefore, delayedBefore := r.limiter.Counts()
	progress.Step(r.title)
	if err := r.measure(ctx); err != nil {
		return nil, r.because(err)
	}
	requestsAfter, delayedAfter := r.limiter.Counts()
	if used.after, renewedAfter, err = r.sample(ctx); err != nil {
		return nil, r.because(err)
	}
	stopped = true
	complaints, err := r.running.Stop()
	if err != nil {
		return nil, err
	}
	seen := observation{
		qps: r.options.Limit.QPS, complaints: complaints,
		requests: float64(requestsAfter - requestsBefore), delayed: float64(delayedAfter - delayedBefore),
	}
	return r.evaluate(&seen, used, float64(renewedAfter-renewedBefore)), nil
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
func (r *round) place() contender.Place {
	place := contender.Place{Namespace: r.options.Ground.Namespace()}
	for i := range r.plan.Nodes {
		place.Nodes = append(place.Nodes, r.options.Ground.NodeName(r.plan.Nodes[i].Name))
	}
	return place
}

// prepare clears the ground, and brings nodes, Services and existing pods there.
func (r *round) prepare(ctx context.Context) error {
	ground := r.options.Ground
	if err := r.prepareNodes(ctx, r.plan.Nodes); err != nil {
		return err
	}
	for i := range r.plan.Services {
		service := r.plan.Services[i].DeepCopy()
		ground.AdoptService(service)
		if _, err := r.client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Service %s: %w", service.Name, err)
		}
	}
	r.creator = &creator{client: r.client}
	r.reaper = &reaper{client: r.client}
	var names []string
	for i := range r.plan.Arrivals {
		arrival := &r.plan.Arrivals[i]
		pod := arrival.Pod.DeepCopy()
		ground.Adopt(pod)
		pod.Spec.SchedulerName = r.spec.Name
		r.creator.pods = append(r.creator.pods, pod)
		r.reaper.lifetimes = append(r.reaper.lifetimes, arrival.Lifetime)
		names = append(names, pod.Name)
	}
	r.reaper.pods = r.creator.pods
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
		ground.Adopt(pod)
		existing.pods = append(existing.pods, pod)
		names = append(names, pod.Name)
	}
	r.recorder = newRecorder(names)
	if err := r.recorder.watch(ctx, r.watcher, ground.Namespace()); err != nil {
		return err
	}
	if err := existing.run(ctx, func(time.Time) {}); err != nil {
		return err
	}
	return r.awaitExisting(ctx, len(existing.pods))
}

// awaitExisting waits until the watch has told of all existing pods. A scheduler that
// is started after that finds them in its first list; one that runs already gets
// them before its probe pod.
func (r *round) awaitExisting(ctx context.Context, count int) error {
	patience := time.NewTimer(existingPatience)
	defer patience.Stop()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for {
		if r.recorder.progress().bound >= count {
			return nil
		}
		select {
		case <-poll.C:
		case <-patience.C:
			return fmt.Errorf("%d of %d existing pods are not bound after %v", count-r.recorder.progress().bound, count, existingPatience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sample reads the scheduler's counters once they have come to rest, with the number
// of renewals of its lease by then. The sample is nil where nothing can be seen.
func (r *round) sample(ctx context.Context) (*contender.Sample, int64, error) {
	patience := time.Now().Add(samplePatience)
	var earlier *contender.Sample
	var earlierRenewed int64
	for {
		sample, err := r.running.Sample(ctx)
		if err != nil || sample == nil {
			return nil, 0, err
		}
		var renewed int64
		if r.renewals != nil {
			renewed = r.renewals.count.Load()
		}
		// A renewal may be counted before it is seen, or the other way round: only
		// two looks without any change are sure to agree.
		if earlier != nil && (sample.Writes == earlier.Writes && renewed == earlierRenewed || time.Now().After(patience)) {
			return sample, renewed, nil
		}
		earlier, earlierRenewed = sample, renewed
		select {
		case <-time.After(samplePause):
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// measure creates the pods and returns when the queue has settled.
func (r *round) measure(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.reaper.deadline = time.Now().Add(r.options.RoundTimeout)
	go r.reaper.run(ctx, r.recorder.bindings)
	created, started := make(chan error, 1), make(chan time.Time, 1)
	go func() { created <- r.creator.run(ctx, func(at time.Time) { started <- at }) }()
	r.start = <-started
	if r.begin.IsZero() {
		r.begin = r.start
	}
	return r.settle(ctx, created)
}

// settle waits until the round is over.
func (r *round) settle(ctx context.Context, created <-chan error) error {
	existing, planned := len(r.plan.Existing), len(r.creator.pods)
	timeout := time.NewTimer(r.options.RoundTimeout)
	defer timeout.Stop()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	now := state{planned: planned + existing}
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
		if now.leaving, failure = r.reaper.status(); failure != nil {
			return failure
		}
		r.last = now
		r.options.Progress.Pods(now.bound+now.lost+now.refused-existing, planned)
		if r.timedOut || now.judge(time.Now()) != underway {
			return nil
		}
	}
}
