// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// killedSchedulerLosesNoPod kills random-scheduler again and again while
// pods arrive.
func killedSchedulerLosesNoPod(t *testing.T) {
	pods, kills := atFullSize(200, 400), atFullSize(3, 6)
	for _, fit := range []string{"constraints", "resources"} {
		t.Run(fit, func(t *testing.T) {
			c := start(t, localcluster.FakeNodes(10))
			arrive := make(chan error, 1)
			go func() { arrive <- createRange(t.Context(), c, 0, pods, "pod") }()
			for kill := 1; kill <= kills; kill++ {
				p := launch(t, c, "--fit="+fit)
				waitAllBound(t, c, "default", kill*pods/(kills+2))
				p.Kill()
			}
			if err := <-arrive; err != nil {
				t.Fatal(err)
			}
			run(t, c, "--fit="+fit)
			waitAllBound(t, c, "default", pods)
			requireNotBoundTwice(t, c, list(t, c, "default"))
		})
	}
}

// apiServerRestartLosesNoPod kills the API server while Bindings are in
// flight; whether those were carried out, random-scheduler cannot know.
func apiServerRestartLosesNoPod(t *testing.T) {
	const pods = 400
	c := start(t, localcluster.FakeNodes(10))
	p := run(t, c, "--fit=resources", "--pod-initial-backoff=100ms", "--pod-max-backoff=1s")
	arrive := make(chan error, 1)
	go func() { arrive <- createRange(t.Context(), c, 0, pods, "pod") }()
	waitAllBound(t, c, "default", pods/4)
	if err := c.KillComponent(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := c.RestartComponent(t.Context(), localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := <-arrive; err != nil {
		t.Fatal(err)
	}
	waitAllBound(t, c, "default", pods)
	select {
	case <-p.Done():
		t.Error("random-scheduler ended when the API server did")
	default:
	}
	requireNotBoundTwice(t, c, list(t, c, "default"))
}

// quickElection keeps a test from waiting long for the lease of a killed leader.
var quickElection = []string{
	"--leader-elect=true",
	"--leader-elect-lease-duration=3s",
	"--leader-elect-renew-deadline=2s",
	"--leader-elect-retry-period=500ms",
}

// replicasBindEachPodOnce runs two replicas, kills the leader with SIGKILL
// while pods arrive, replaces it, and then stops the second leader in order.
func replicasBindEachPodOnce(t *testing.T) {
	pods := atFullSize(300, 600)
	c := start(t, localcluster.FakeNodes(10))
	// A rate below the test's own makes the pods wait for the binders.
	args := append([]string{"--kube-api-qps=100", "--kube-api-burst=10", "--fit=resources"}, quickElection...)
	replicas := []*framework.Process{launch(t, c, args...), launch(t, c, args...)}
	leads := func(p *framework.Process) bool { return strings.Contains(p.Output(), "Started binding") }
	leader := func() (leader, standby *framework.Process) {
		framework.WaitForCondition(t, framework.WaitTimeout, "one replica to lead", func() (bool, error) {
			return leads(replicas[0]) || leads(replicas[1]), nil
		})
		if leads(replicas[0]) && leads(replicas[1]) {
			t.Fatal("both replicas bind pods")
		}
		if leads(replicas[0]) {
			return replicas[0], replicas[1]
		}
		return replicas[1], replicas[0]
	}
	first, second := leader()
	arrive := make(chan error, 1)
	go func() { arrive <- createRange(t.Context(), c, 0, pods, "pod") }()

	waitAllBound(t, c, "default", pods/3)
	first.Kill()
	replicas = []*framework.Process{second, launch(t, c, args...)}
	waitAllBound(t, c, "default", 2*pods/3)
	second, third := leader()
	if code := second.Stop(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	waitAllBound(t, c, "default", pods)
	if err := <-arrive; err != nil {
		t.Fatal(err)
	}
	// The second may have bound the last of them before it ended. From now on
	// only the third can.
	third.WaitForOutput(t, framework.WaitTimeout, "Started binding")
	create(t, c, newPod("after-the-stop"))
	c.WaitForPodScheduled(t, "default", "after-the-stop")

	all := list(t, c, "default")
	if len(all) != pods+1 {
		t.Errorf("%d pods exist, want %d", len(all), pods+1)
	}
	requireNotBoundTwice(t, c, all)
	requireScheduledEvents(t, c, all)
}

func replicaStopsInOrder(t *testing.T) {
	c := start(t, localcluster.FakeNodes(1))
	holder := func() string {
		return c.Kubectl(t, "get", "lease", "random-scheduler", "-n", "berth-system", "-o", "jsonpath={.spec.holderIdentity}")
	}
	leader := run(t, c, quickElection...)
	standby := launch(t, c, quickElection...)
	held := holder()
	for _, want := range []string{"Standing by while another replica holds the lease", held} {
		standby.WaitForOutput(t, framework.WaitTimeout, want)
	}
	if code := standby.Stop(t); code != 0 {
		t.Errorf("the standby's exit code is %d after SIGTERM, want 0", code)
	}
	if got := holder(); got != held || held == "" {
		t.Errorf("the lease is held by %q, then by %q", held, got)
	}
	create(t, c, newPod("pod"))
	c.WaitForPodScheduled(t, "default", "pod")
	if code := leader.Stop(t); code != 0 {
		t.Errorf("the leader's exit code is %d after SIGTERM, want 0", code)
	}
	if got := holder(); got != "" {
		t.Errorf("the lease is still held by %q after its holder has ended", got)
	}
}

// TestLeaderThatCannotRenewEnds: another replica may hold the lease by then.
func leaderThatCannotRenewEnds(t *testing.T) {
	c := start(t, localcluster.FakeNodes(1))
	p := run(t, c, quickElection...)
	if err := c.KillComponent(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(t, framework.WaitTimeout); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := "lost the lease berth-system/random-scheduler"; !strings.Contains(p.Output(), want) {
		t.Errorf("output does not contain %q", want)
	}
	if err := c.RestartComponent(t.Context(), localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
}

// requireScheduledEvents fails if a pod has two events Scheduled, or if more are
// missing than a killed leader can have had in its hands.
func requireScheduledEvents(t *testing.T, c *framework.Cluster, pods []corev1.Pod) {
	t.Helper()
	// Events are written beside the Bindings, at the same rate limit: at the time
	// of the kill some 10 workers' and some queued ones are lost.
	const lost = 50
	var counts map[string]int
	framework.WaitForCondition(t, framework.WaitTimeout, "the events Scheduled", func() (bool, error) {
		events, err := scheduledEvents(t.Context(), c)
		if err != nil {
			return false, err
		}
		counts = map[string]int{}
		for i := range events {
			event := &events[i]
			counts[event.InvolvedObject.Name]++
			if event.Series != nil {
				counts[event.InvolvedObject.Name] += int(event.Series.Count) - 1
			}
		}
		return len(counts) >= len(pods)-lost, fmt.Errorf("%d of %d pods have one", len(counts), len(pods))
	})
	for name, n := range counts {
		if n != 1 {
			t.Errorf("pod %s has %d events Scheduled, want 1", name, n)
		}
	}
	t.Logf("%d of %d pods have an event Scheduled", len(counts), len(pods))
}
