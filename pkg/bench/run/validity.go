// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/bench/report"
)

const (
	// maxOfQPS is the part of the clients' limit that a throughput must stay below: near
	// the limit it is the limit that is measured.
	maxOfQPS = 0.8
	// maxDelayed is the part of a client's requests that its limit may hold up. A few
	// are: a scheduler counts a request too that waits for a busy machine and not for a
	// token.
	maxDelayed = 0.01
	// maxFewDelayed is how many it may hold up in any case: in a small round one slow
	// moment of the machine decides nothing.
	maxFewDelayed = 2
	// maxLateness is how far behind its plan the creation of a pod may be, where the
	// plan has times.
	maxLateness = time.Second
	// maxLag is how long after the answer to a pod's creation the watch may tell of the
	// pod, for 99 % of them, and maxLagPart the same as a part of the round: a machine
	// with all CPUs busy delays every event, for the scheduler as well.
	maxLag     = time.Second
	maxLagPart = 0.05
)

// observation is what decides whether a round counts.
type observation struct {
	throughput, qps float64
	// requests and delayed are those of the benchmark's client, and of the scheduler's
	// where that can be seen.
	requests, delayed                   float64
	schedulerRequests, schedulerDelayed float64
	// timeout is what ended the round; 0 if it settled. left are the pods that were
	// neither bound nor refused then.
	timeout time.Duration
	left    int
	// bound and planned count pods.
	bound, planned int
	// paced is whether the plan has times, and lateness how far behind the worst
	// creation was.
	paced    bool
	lateness time.Duration
	// duration is the round's. lag is the watch's, and endLag that of the last tenth of
	// the pods to arrive.
	duration, lag, endLag time.Duration
	// losses is how often the watch was lost.
	losses int
	// rbacErrors are lines of the scheduler's log about rights that it lacks.
	rbacErrors []string
}

// throttled reports whether a client's limit held up too many of its requests.
func throttled(delayed, requests float64) bool {
	return delayed > max(maxFewDelayed, maxDelayed*requests)
}

// invalid returns why a round does not count; nothing if it does.
func (o *observation) invalid() []string {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if o.timeout > 0 {
		add("it had not finished after %v: %d of %d pods were neither bound nor rejected", o.timeout, o.left, o.planned)
	}
	if o.bound == 0 {
		add("no pod was bound")
	}
	if o.throughput >= maxOfQPS*o.qps {
		add("%.0f pods/s is not below %.0f %% of the clients' limit of %.0f requests/s", o.throughput, 100*maxOfQPS, o.qps)
	}
	if throttled(o.delayed, o.requests) {
		add("the benchmark's client was throttled: its limit held up %.0f of %.0f requests", o.delayed, o.requests)
	}
	if throttled(o.schedulerDelayed, o.schedulerRequests) {
		add("the scheduler's client was throttled: its limit held up %.0f of %.0f requests", o.schedulerDelayed, o.schedulerRequests)
	}
	if o.paced && o.lateness > maxLateness {
		add("a pod was created %v later than planned: the API server cannot keep up", o.lateness.Round(time.Millisecond))
	}
	for _, line := range o.rbacErrors {
		add("the scheduler lacks a permission: %s", line)
	}
	return why
}

// late reports whether the watch's lag is too much for times of this round.
func (o *observation) late(lag time.Duration) bool {
	return lag > maxLag && lag.Seconds() > maxLagPart*o.duration.Seconds()
}

// inexact returns which metrics do not count because the watch did not tell when things
// happened, and why: where the pods are, and what they cost, it does not matter to.
// Throughput is about the time of the last binding alone.
func (o *observation) inexact() map[string]string {
	why := map[string]string{}
	times := []string{report.LatencyP50, report.LatencyP90, report.LatencyP99}
	if o.late(o.lag) {
		for _, key := range times {
			why[key] = fmt.Sprintf("the watch was %v behind", o.lag.Round(time.Millisecond))
		}
	}
	if o.late(o.endLag) {
		why[report.Throughput] = fmt.Sprintf("the watch was %v behind at the end", o.endLag.Round(time.Millisecond))
	}
	if o.losses > 0 {
		for _, key := range append(times, report.Throughput) {
			why[key] = fmt.Sprintf("the watch was lost %d times", o.losses)
		}
	}
	return why
}
