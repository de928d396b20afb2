// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// replicaBehind starts a berth-scheduler with leader election behind a proxy.
func replicaBehind(t *testing.T, c *framework.Cluster, hooks faultproxy.Hooks, election ...string) *framework.Scheduler {
	t.Helper()
	proxy := faultproxy.Start(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), hooks)
	return c.LaunchScheduler(t, framework.Binary(t, framework.BerthScheduler), gpuProfile, framework.SchedulerOptions{
		Kubeconfig: proxy.Kubeconfig, LeaderElect: true, Args: election,
	})
}

func waitLeads(t *testing.T, s *framework.Scheduler) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the replica to lead", func() (bool, error) { return gpuchurn.Leads(s), nil })
}

// preparedBeforeReady: a process that leads is not ready before it knows what others have
// placed, without any pod that asks; a standby is, and is not when it leads until it knows too.
func preparedBeforeReady(t *testing.T) {
	const known = "Every pod with a share of a device is known"
	c := startPool(t, 1, 1)
	var down atomic.Bool
	hooks := faultproxy.Hooks{Binding: faultproxy.PassOn, Drop: func(r *http.Request) bool {
		// That is how the plugin asks; the informers of pods ask for more.
		return down.Load() && r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("limit") == "1"
	}}
	becomesReady := func(s *framework.Scheduler) {
		t.Helper()
		waitLeads(t, s)
		framework.WaitForCondition(t, framework.WaitTimeout, "/readyz to say that the scheduler prepares", func() (bool, error) {
			err := s.Ready(t)
			return err != nil && strings.Contains(err.Error(), "is still reading earlier allocations"), err
		})
		down.Store(false)
		s.WaitReady(t)
		if !strings.Contains(s.Output(), known) {
			t.Errorf("the scheduler is ready, and has not logged %q", known)
		}
	}
	down.Store(true)
	old := replicaBehind(t, c, hooks, gpuchurn.QuickElection()...)
	becomesReady(old)
	next := replicaBehind(t, c, hooks, gpuchurn.QuickElection()...)
	next.WaitForOutput(t, framework.WaitTimeout, "Standing by")
	next.WaitReady(t)
	if strings.Contains(next.Output(), known) {
		t.Errorf("a standby has logged %q: what the leader binds after it is not known", known)
	}
	down.Store(true)
	old.Kill()
	becomesReady(next)
	c.CreatePod(t, gpuchurn.SharePod("share", "1000"))
	c.WaitForPodScheduled(t, namespace, "share")
}

// lastBinding asks a leader to end while a Binding is on its way. The lease stays with
// it until the Binding is answered, and only then the next one leads.
func lastBinding(t *testing.T) {
	const slow = 2 * time.Second // of the network: longer than the next one takes to see a lease that is free
	c := startPool(t, 1, 1)
	var next, old *framework.Scheduler
	onItsWay, answered := make(chan struct{}), make(chan struct{})
	var led bool
	var answer *faultproxy.Answer
	start := func(hook func(*faultproxy.Binding) *faultproxy.Answer) *framework.Scheduler {
		// The rest is as it is: half of 10 s is the patience.
		return replicaBehind(t, c, faultproxy.Hooks{Binding: hook}, "--leader-elect-retry-period=500ms")
	}
	old = start(func(b *faultproxy.Binding) *faultproxy.Answer {
		if b.Nth > 1 {
			return faultproxy.PassOn(b)
		}
		close(onItsWay)
		defer close(answered)
		<-time.After(slow)
		led, answer = gpuchurn.Leads(next), faultproxy.PassOn(b)
		return answer
	})
	waitLeads(t, old)
	next = start(faultproxy.PassOn)
	next.WaitReady(t)
	c.CreatePod(t, gpuchurn.SharePod("last", "500"))
	<-onItsWay
	old.Signal(syscall.SIGTERM)
	<-answered
	if led || answer == nil || answer.Code != http.StatusCreated {
		t.Errorf("another one led before the last Binding was sent: %t; it was answered %+v, want %d", led, answer, http.StatusCreated)
	}
	if code := old.Wait(t, framework.WaitTimeout); code != 0 {
		t.Errorf("the former leader ended with code %d", code)
	}
	waitLeads(t, next)
	c.CreatePod(t, gpuchurn.SharePod("next", "500"))
	requireRight(t, c, next, 2)
}
