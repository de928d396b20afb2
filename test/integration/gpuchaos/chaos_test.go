// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/controlplane"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/oracle"
)

// quickElection keeps the test from waiting long for a killed leader's lease.
var quickElection = []string{
	"--leader-elect=true",
	"--leader-elect-lease-duration=4s",
	"--leader-elect-renew-deadline=3s",
	"--leader-elect-retry-period=500ms",
}

// size is how much a chaos test does.
type size struct {
	nodes, devices int
	// pods arrive in all, alive stay at a time, and unseen wait for an attempt.
	pods, alive, unseen int
	// kills of schedulers, and restarts of the API server among them.
	kills, restarts int
}

var (
	small = size{nodes: 20, devices: 2, pods: 300, alive: 60, unseen: 15, kills: 3, restarts: 1}
	large = size{nodes: 200, devices: 4, pods: 5000, alive: 1350, unseen: 60, kills: 24, restarts: 5}
)

// replicas keeps two schedulers running, as a Deployment would.
type replicas struct {
	c          *framework.Cluster
	kubeconfig string
	running    []*framework.Scheduler
	// lost ended by themselves because they had lost the lease, and corrupted because
	// a pod was replaced by one of the same name while the API server was away:
	// kube-scheduler 1.36 takes that for a corrupted cache, and starts over.
	lost, corrupted int
	// killed counts the kills, and all are those that ever ran.
	killed int
	all    []*framework.Scheduler
}

func (r *replicas) fill(t *testing.T) {
	t.Helper()
	r.running = slices.DeleteFunc(r.running, func(s *framework.Scheduler) bool {
		if s.Running() {
			return false
		}
		switch output := strings.ToLower(s.Output()); {
		case strings.Contains(output, "leaderelection lost"):
			r.lost++
		case strings.Contains(output, "scheduler cache is corrupted"):
			r.corrupted++
		default:
			t.Errorf("a replica ended by itself with code %d", s.ExitCode())
		}
		return true
	})
	for len(r.running) < 2 {
		s := r.c.LaunchScheduler(t, framework.BerthScheduler, gpuProfile, framework.SchedulerOptions{
			Kubeconfig: r.kubeconfig, LeaderElect: true, Args: quickElection,
		})
		r.running, r.all = append(r.running, s), append(r.all, s)
	}
}

// leads reports whether the replica has become leader.
func leads(s *framework.Scheduler) bool {
	return strings.Contains(strings.ToLower(s.Output()), "successfully acquired lease")
}

// kill kills the leader, the standby, or both.
func (r *replicas) kill(rng *rand.Rand) {
	whom := rng.IntN(10)
	r.running = slices.DeleteFunc(r.running, func(s *framework.Scheduler) bool {
		if whom < 8 && leads(s) || whom == 8 && !leads(s) || whom == 9 {
			s.Kill()
			r.killed++
			return true
		}
		return false
	})
}

// TestChaos kills schedulers with SIGKILL, and restarts the API server, at random
// moments while pods with shares arrive and leave.
func TestChaos(t *testing.T) {
	of := small
	if framework.Long() {
		of = large
	}
	const seed = 20260
	start := time.Now()
	rng := rand.New(rand.NewPCG(seed, 99))
	c := startPool(t, of.nodes, of.devices)
	watch := startWatch(t, c)
	ch := &churn{c: c, watch: watch, pods: of.pods, alive: of.alive, unseen: of.unseen, seed: seed}
	rs := &replicas{c: c, kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler)}
	rs.fill(t)
	ch.limit.Store(int64(of.unseen))
	arrived := make(chan error, 1)
	go func() { arrived <- ch.run(t.Context()) }()

	// A moment is a number of pods that have arrived, and some milliseconds more.
	var moments []int
	for range of.kills + of.restarts {
		moments = append(moments, 1+rng.IntN(of.pods))
	}
	slices.Sort(moments)
	restarts := map[int]bool{}
	for len(restarts) < of.restarts {
		restarts[rng.IntN(len(moments))] = true
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for i, s := range rs.all {
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("scheduler-%d.log", i)), []byte(s.Output()), 0o600); err != nil {
				t.Log(err)
			}
		}
	})
	for i, moment := range moments {
		// Not many pods arrive without the kill that is due.
		ch.limit.Store(int64(moment + of.unseen))
		framework.WaitForCondition(t, 4*framework.WaitTimeout, fmt.Sprintf("moment %d of %d", i, len(moments)), func() (bool, error) {
			rs.fill(t)
			return ch.arrivals() >= moment && slices.ContainsFunc(rs.running, leads), nil
		})
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond) // a moment, not a wait for something
		if restarts[i] {
			if err := c.KillComponent(controlplane.APIServer); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				rs.kill(rng) // both at once
			}
			if err := c.RestartComponent(t.Context(), controlplane.APIServer); err != nil {
				t.Fatal(err)
			}
			continue
		}
		rs.kill(rng)
	}
	ch.limit.Store(math.MaxInt64)
	framework.WaitForCondition(t, 10*framework.WaitTimeout, "all pods to arrive", func() (bool, error) {
		rs.fill(t)
		select {
		case err := <-arrived:
			if err != nil {
				t.Fatal(err)
			}
			return true, nil
		default:
			return false, nil
		}
	})

	rs.fill(t)
	r, pods := waitSettled(t, c, -1)
	history, versions, bindings := watch.history.Violations()
	if violations := slices.Concat(r.Violations, oracle.CheckLost(ch.kept, pods), history); len(violations) > 0 {
		t.Error(violations)
	}
	for _, s := range rs.running {
		s.WaitReady(t)
		requireView(t, c, s, names.Scheduler)
	}
	unknown := 0
	for _, s := range rs.all {
		unknown += strings.Count(s.Output(), "It is not known whether the pod was bound")
	}
	conflicts := warned(t, c, "GPUDeviceConflict")
	t.Logf("%v: %d schedulers started and %d killed at %d moments, %d of them restarts of the API server, %d schedulers lost the lease and %d their cache; "+
		"%d pods created (%d by a name used before), %d deleted, %d of them ended before; %d versions with %d bindings seen; "+
		"at the end %d bound, %d pending; %d Bindings of unknown outcome, %d pods with conflict events",
		time.Since(start).Round(time.Second), len(rs.all), rs.killed, len(moments), of.restarts, rs.lost, rs.corrupted,
		ch.created, ch.renamed, ch.deleted, ch.ended, versions, bindings, r.Bound, r.Pending, unknown, len(conflicts))
	if len(conflicts) > 0 {
		t.Errorf("conflicts were reported: %v", conflicts)
	}
}
