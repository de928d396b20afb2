// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
)

// errEnding is why a pod is not bound any more.
var errEnding = errors.New("this scheduler process is ending: the next one binds the pod")

// endBindingsFirst has a leader that is asked to end give its lease back only when the
// Bindings that it has sent are answered. Upstream cancels them, and whoever leads next does not know
// which of them the API server writes even so.
//
// They have half the time in which the lease must be renewed, so that nobody can take it
// meanwhile; if that is not enough, it is not given back, and runs out. With the feature
// gate SchedulerAsyncAPICalls upstream's queue of API calls cancels them as before.
func endBindingsFirst(sched *kubescheduler.Scheduler, lock *lease.Lock, renewDeadline time.Duration) {
	if lock == nil {
		return
	}
	patience := renewDeadline / 2
	b := &bindings{}
	for name, profile := range sched.Profiles {
		sched.Profiles[name] = bindingProfile{Framework: profile, bindings: b, patience: patience}
	}
	lock.BeforeRelease(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return b.end(ctx)
	})
}

// bindings counts those that are on their way. Its methods may be called concurrently.
type bindings struct {
	mu     sync.Mutex
	count  int
	ending bool
	// none is closed when ending is set and count is 0.
	none chan struct{}
}

// begin counts one more, and reports false if there may be none any more.
func (b *bindings) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ending {
		return false
	}
	b.count++
	return true
}

// done counts one less.
func (b *bindings) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count--
	if b.ending && b.count == 0 {
		close(b.none)
	}
}

// end lets no further one begin, and returns when those that have begun are done; an
// error if ctx ends before.
func (b *bindings) end(ctx context.Context) error {
	b.mu.Lock()
	if !b.ending {
		b.ending, b.none = true, make(chan struct{})
		if b.count == 0 {
			close(b.none)
		}
	}
	count := b.count
	b.mu.Unlock()
	start := time.Now()
	select {
	case <-b.none:
		klog.FromContext(ctx).Info("The Bindings that were on their way have been answered", "bindings", count, "took", time.Since(start))
		return nil
	case <-ctx.Done():
		return fmt.Errorf("not all of %d Bindings in flight were answered in time: %w", count, ctx.Err())
	}
}

// bindingProfile is a profile whose Bindings do not end at once with the process.
type bindingProfile struct {
	framework.Framework

	bindings *bindings
	// patience is how much longer than ctx a Binding may take.
	patience time.Duration
}

// RunBindPlugins implements framework.Framework.
func (p bindingProfile) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	if ctx.Err() != nil || !p.bindings.begin() {
		return fwk.AsStatus(errEnding)
	}
	defer p.bindings.done()
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.patience, cancel) })()
	return p.Framework.RunBindPlugins(longer, state, pod, nodeName)
}
