// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// killedSchedulerLosesNoPod kills random-scheduler again and again while
// pods arrive.
func killedSchedulerLosesNoPod(t *testing.T) {
	const pods = 200
	kills := 3
	if framework.Long() {
		kills = 8
	}
	c := start(t, localcluster.FakeNodes(10))
	arrive := make(chan error, 1)
	go func() { arrive <- createRange(t.Context(), c, 0, pods, "pod") }()
	for kill := 1; kill <= kills; kill++ {
		p := launch(t, c, "--fit=resources")
		waitAllBound(t, c, "default", kill*pods/(kills+2))
		p.Kill()
	}
	if err := <-arrive; err != nil {
		t.Fatal(err)
	}
	run(t, c, "--fit=resources")
	waitAllBound(t, c, "default", pods)
	requireNotBoundTwice(t, c, list(t, c, "default"))
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

// twoBindEachPodOnce runs two processes, as when a Deployment's pod is replaced while the
// old one is cut off: one is killed with SIGKILL while pods arrive and replaced, and then
// the other is stopped in order.
func twoBindEachPodOnce(t *testing.T) {
	const pods = 300
	c := start(t, localcluster.FakeNodes(10))
	// A rate below the test's own makes the pods wait for the binders.
	args := []string{"--kube-api-qps=50", "--kube-api-burst=10"}
	first, second := run(t, c, args...), run(t, c, args...)
	arrive := make(chan error, 1)
	go func() { arrive <- createRange(t.Context(), c, 0, pods, "pod") }()
	waitAllBound(t, c, "default", pods/3)
	first.Kill()
	run(t, c, args...)
	waitAllBound(t, c, "default", 2*pods/3)
	if code := second.Stop(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	waitAllBound(t, c, "default", pods)
	if err := <-arrive; err != nil {
		t.Fatal(err)
	}
	all := list(t, c, "default")
	if len(all) != pods {
		t.Errorf("%d pods exist, want %d", len(all), pods)
	}
	requireNotBoundTwice(t, c, all)
	requireScheduledEvents(t, c, all)
}

// requireScheduledEvents fails if a pod has two events Scheduled, or if more are
// missing than a killed process can have had in its hands.
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
