// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// state is what a process does about its lease.
type state string

// The values of the label state.
const (
	// unread: the lease was not read yet, or the API server does not answer.
	unread state = "unread"
	// leading: this process holds the lease.
	leading state = "leading"
	// standby: a replica of this process's holds it, or nobody does yet.
	standby state = "standby"
	// waiting: a scheduler that serves none of its names holds it, so that this process never leads.
	waiting state = "waiting_for_another"
)

// states are all of them.
var states = []state{unread, leading, standby, waiting}

// state returns what this process does about its lease by what it read or wrote last.
func (l *Lock) state() state {
	l.mu.Lock()
	seen, leads, holder := l.seen, l.leads, l.holder
	l.mu.Unlock()
	switch {
	case !seen:
		return unread
	case leads:
		return leading
	case holder != "" && l.notReplica(holder) != nil:
		return waiting
	}
	return standby
}

// RegisterMetrics adds berth_lease_held_by_another and berth_lease_state to the metrics of
// this process, which tell of lock. It panics if they are there already: a process waits for
// one lease.
func RegisterMetrics(lock *Lock) {
	legacyregistry.RawMustRegister(newMetric(lock))
	for _, s := range states {
		legacyregistry.RawMustRegister(newStateMetric(lock, s))
	}
}

func newStateMetric(lock *Lock, s state) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace: "berth",
		Subsystem: "lease",
		Name:      "state",
		Help: "1 for what this process does about its lease, by the label state: leading; standby, for a replica of its own; " +
			"waiting_for_another, a scheduler that serves none of its names, so that it never leads; unread, before it has read the lease. 0 for the others.",
		ConstLabels:    map[string]string{"state": string(s)},
		StabilityLevel: metrics.ALPHA,
	}, func() float64 {
		if lock.state() == s {
			return 1
		}
		return 0
	})
}

func newMetric(lock *Lock) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace: "berth",
		Subsystem: "lease",
		Name:      "held_by_another",
		Help: "1 while the lease that this process waits for is held by a scheduler that serves none of its names, so that it never leads; " +
			"0 while it leads, waits for a replica of its own, or has not read the lease yet.",
		StabilityLevel: metrics.ALPHA,
	}, func() float64 {
		if lock.Waits() != nil {
			return 1
		}
		return 0
	})
}
