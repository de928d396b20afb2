// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// runningQueue is a queue that tells whether it runs.
type runningQueue struct {
	queue.SchedulingQueue

	running bool
}

func (q *runningQueue) Run(klog.Logger) { q.running = true }

// slowPreparer prepares when it is told to.
type slowPreparer struct {
	finish chan error
	// replaced is what Ready returns.
	replaced error
}

func (*slowPreparer) PrepareLater() {}

func (p *slowPreparer) Ready() error { return p.replaced }

func (p *slowPreparer) Prepare(context.Context) error { return <-p.finish }

// allowAll is an authorizer.
type allowAll struct{ authorizer.Authorizer }

func (allowAll) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// TestReadiness: without leader election a process is ready when all plugins have prepared,
// which they begin with the queue.
func TestReadiness(t *testing.T) {
	t.Parallel()
	q := &runningQueue{}
	sched := &kubescheduler.Scheduler{SchedulingQueue: q}
	config := schedulerserverconfig.Config{}
	config.Authorization.Authorizer = allowAll{}
	completed := config.Complete()
	first, second := &slowPreparer{finish: make(chan error)}, &slowPreparer{finish: make(chan error)}
	p := prepareFirst(t.Context(), sched, []preparer{first, second})
	showReadiness(&completed, nil, p)
	ask := func(path string) authorizer.Decision {
		decision, _, err := completed.Authorization.Authorizer.Authorize(t.Context(), authorizer.AttributesRecord{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return decision
	}
	if ask("/readyz") != authorizer.DecisionDeny || ask("/livez") != authorizer.DecisionAllow {
		t.Error("before the queue runs: want that it lives and is not ready")
	}
	sched.SchedulingQueue.Run(klog.FromContext(t.Context()))
	if !q.running {
		t.Error("the queue does not run")
	}
	first.finish <- nil
	if ask("/readyz") != authorizer.DecisionDeny {
		t.Error("one of two plugins has prepared: want that it is not ready")
	}
	second.finish <- nil
	<-p.done
	if ask("/readyz") != authorizer.DecisionAllow {
		t.Error("both plugins have prepared: want that it is ready")
	}
	second.replaced = errors.New("another process has taken over")
	if ask("/readyz") != authorizer.DecisionDeny || ask("/livez") != authorizer.DecisionAllow {
		t.Error("another process has taken over: want that it lives and is not ready")
	}
	failed := prepareFirst(t.Context(), sched, []preparer{ended{}})
	failed.run(t.Context())
	if !errors.Is(failed.ready(), errNotPrepared) {
		t.Error("a plugin that could not prepare: want that it is not ready")
	}
}

// ended is a plugin that was ended.
type ended struct{}

func (ended) PrepareLater() {}

func (ended) Ready() error { return nil }

func (ended) Prepare(context.Context) error { return context.Canceled }
