// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchurn

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// QuickElection are flags that keep a test from waiting long for a killed leader's lease.
func QuickElection() []string {
	return []string{
		"--leader-elect=true",
		"--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms",
	}
}

// Replicas keeps two schedulers with leader election running, as a Deployment would.
type Replicas struct {
	C *framework.Cluster
	// Binary, Kubeconfig and Args are what the next ones are started with.
	Binary, Kubeconfig string
	Args               []string
	// NextKubeconfig makes the kubeconfig of the next one. Default: Kubeconfig is that of all.
	NextKubeconfig func() string
	// Profile is the file with their profile. Default: the constant of that name.
	Profile string
	// MayEnd reports whether a replica may have ended by itself, for another reason than
	// that it has lost the lease or its cache. Default: never.
	MayEnd func(*framework.Scheduler) bool

	// All are those that ever ran.
	All []*framework.Scheduler
	// Lost ended by themselves because they had lost the lease, and Corrupted because
	// a pod was replaced by one of the same name while the API server was away:
	// kube-scheduler 1.36 takes that for a corrupted cache, and starts over.
	Lost, Corrupted int

	running []*framework.Scheduler
}

// Fill starts what is missing, and fails the test if one has ended that should not.
func (r *Replicas) Fill(t *testing.T) {
	t.Helper()
	r.running = slices.DeleteFunc(r.running, func(s *framework.Scheduler) bool {
		if s.Running() {
			return false
		}
		switch output := strings.ToLower(s.Output()); {
		case s.Err() == nil: // it was told to
		case strings.Contains(output, "leaderelection lost"):
			r.Lost++
		case strings.Contains(output, "scheduler cache is corrupted"):
			r.Corrupted++
		case r.MayEnd == nil || !r.MayEnd(s):
			t.Errorf("a replica ended by itself with code %d", s.ExitCode())
		}
		return true
	})
	for len(r.running) < 2 {
		kubeconfig := r.Kubeconfig
		if r.NextKubeconfig != nil {
			kubeconfig = r.NextKubeconfig()
		}
		s := r.C.LaunchScheduler(t, r.Binary, cmp.Or(r.Profile, Profile), framework.SchedulerOptions{Kubeconfig: kubeconfig, LeaderElect: true, Args: r.Args})
		r.running, r.All = append(r.running, s), append(r.All, s)
	}
}

// Running returns those that run.
func (r *Replicas) Running() []*framework.Scheduler {
	return slices.DeleteFunc(slices.Clone(r.running), func(s *framework.Scheduler) bool { return !s.Running() })
}

// Leader returns one that runs and has become leader, nil if there is none.
func (r *Replicas) Leader() *framework.Scheduler {
	for _, s := range r.Running() {
		if Leads(s) {
			return s
		}
	}
	return nil
}

// Leads reports whether the replica has become leader.
func Leads(s *framework.Scheduler) bool {
	return strings.Contains(strings.ToLower(s.Output()), "successfully acquired lease")
}
