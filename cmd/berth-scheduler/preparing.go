// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// preparer is a plugin that has something to do when this process begins to schedule, which
// its first pod would otherwise wait for.
type preparer interface {
	// PrepareLater is called at once: Prepare will be.
	PrepareLater()
	// Prepare returns nil when it is done, and an error if ctx ends before. It is called
	// once, beside scheduling cycles.
	Prepare(ctx context.Context) error
	// Ready returns why the process is not ready, or no longer, although Prepare is done.
	Ready() error
}

// errNotPrepared is why a process that schedules, or may do so in a moment, is not ready.
var errNotPrepared = errors.New("this scheduler process has just started and is still reading earlier allocations; pods that ask for shares of devices wait until it is done")

// preparation is that of all plugins.
type preparation struct {
	// done is closed when all have prepared.
	done    chan struct{}
	plugins []preparer
}

// prepareFirst has the plugins prepare as soon as the scheduler runs: at once without leader
// election, and with it when this process becomes leader. Upstream's Run says so to nobody,
// but it starts the queue then.
func prepareFirst(ctx context.Context, sched *kubescheduler.Scheduler, preparers []preparer) *preparation {
	p := &preparation{done: make(chan struct{}), plugins: preparers}
	for _, plugin := range preparers {
		plugin.PrepareLater()
	}
	sched.SchedulingQueue = startedQueue{sched.SchedulingQueue, func() { go p.run(ctx) }}
	return p
}

// run has the plugins prepare.
func (p *preparation) run(ctx context.Context) {
	for _, plugin := range p.plugins {
		if plugin.Prepare(ctx) != nil {
			return // the process is ending
		}
	}
	close(p.done)
}

// ready returns why the plugins are not ready, nil if all are.
func (p *preparation) ready() error {
	select {
	case <-p.done:
	default:
		return errNotPrepared
	}
	for _, plugin := range p.plugins {
		if err := plugin.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// startedQueue is the scheduler's queue, which tells when it is started.
type startedQueue struct {
	queue.SchedulingQueue

	started func()
}

// Run implements queue.SchedulingQueue.
func (q startedQueue) Run(logger klog.Logger) {
	q.started()
	q.SchedulingQueue.Run(logger)
}
