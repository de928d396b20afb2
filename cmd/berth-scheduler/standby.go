// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

const (
	// reachTimeout is how long the API server may take to say its version.
	reachTimeout = 5 * time.Second
	// soleTimeout is how long it may take to say who holds a lease.
	soleTimeout = 15 * time.Second
)

// watchLease makes the election name who holds the lease, and keeps it from taking
// a lease that checkSole refuses, also where the API server could not be asked
// before. It returns nil without leader election.
func watchLease(s *scheduler, flags *settings.Flags) *lease.Lock {
	le := s.config.LeaderElection
	if le == nil {
		return nil
	}
	upstream, ok := le.Lock.(*resourcelock.LeaseLock)
	if !ok {
		// There is no other kind since 1.24.
		return nil
	}
	lock := lease.New(upstream, s.names(), s.mustFollow(flags))
	le.Lock = lock
	return lock
}

// mustFollow reports whether the lease must have been held before: where this
// process serves default-scheduler, and nobody has said that no other one does.
func (s *scheduler) mustFollow(flags *settings.Flags) bool {
	return !flags.SoleDefaultScheduler && slices.Contains(s.names(), corev1.DefaultSchedulerName)
}

// checkSole refuses to serve default-scheduler where nobody has ever held the lease
// of the cluster's own scheduler. That the two share it is what keeps them from
// placing the same pods, and one that runs with --leader-elect=false never takes it.
// An API server that has just started refuses what it will allow in a moment: it is asked
// for soleTimeout. If it never says, the lease is not taken either (lease.Lock).
func checkSole(ctx context.Context, s *scheduler, flags *settings.Flags) error {
	election := s.config.ComponentConfig.LeaderElection
	if !election.LeaderElect || !s.mustFollow(flags) {
		return nil
	}
	var err error
	_ = wait.PollUntilContextTimeout(ctx, time.Second, soleTimeout, true, func(ctx context.Context) (bool, error) {
		err = lease.CheckHeld(ctx, s.config.Client, election)
		return err == nil || errors.Is(err, lease.ErrNeverHeld), nil
	})
	if errors.Is(err, lease.ErrNeverHeld) {
		return settings.NeverHeld(err)
	}
	return nil
}

// checkLater runs the checks as soon as the API server answers, which it did not
// because of why. Until then it says so, at once and again; a check that fails ends
// the process.
func checkLater(ctx context.Context, client kubernetes.Interface, why error, check func() error) {
	klog.FromContext(ctx).Error(why, preflight.NoPodUntilReached)
	if preflight.AwaitReach(ctx, client, reachTimeout, syncTimeout) != nil {
		return
	}
	if err := check(); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// showReadiness makes /readyz fail, and say why, while this process waits for a lease that another
// scheduler holds, and where it schedules, or may do so in a moment, while its plugins
// prepare and after another process has taken over from it. A standby is ready: it has nothing to prepare yet. Upstream's Run makes the endpoint's checks itself;
// what it takes from outside, and asks before every answer, is the authorizer. Metrics
// tell of the lease too.
func showReadiness(config *schedulerserverconfig.CompletedConfig, lock *lease.Lock, p *preparation) {
	waits := p.ready
	if lock != nil {
		waits = func() error {
			if lock.Holder() != "" {
				return lock.Waits()
			}
			return p.ready()
		}
		lease.RegisterMetrics(lock)
	}
	if config.Authorization.Authorizer != nil {
		config.Authorization.Authorizer = readinessAuthorizer{config.Authorization.Authorizer, waits}
	}
}

type readinessAuthorizer struct {
	authorizer.Authorizer
	waits func() error
}

// Authorize implements authorizer.Authorizer.
func (a readinessAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if !attributes.IsResourceRequest() && attributes.GetPath() == "/readyz" {
		if err := a.waits(); err != nil {
			return authorizer.DecisionDeny, err.Error(), nil //nolint:nilerr // the answer is no, and why; asking did not fail
		}
	}
	return a.Authorizer.Authorize(ctx, attributes)
}
