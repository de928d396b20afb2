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
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

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

// kill kills the leader, the standby, or both, and returns how many that were.
func kill(rs *gpuchurn.Replicas, rng *rand.Rand) (killed int) {
	whom := rng.IntN(10)
	for _, s := range rs.Running() {
		if leads := gpuchurn.Leads(s); whom < 8 && leads || whom == 8 && !leads || whom == 9 {
			s.Kill()
			killed++
		}
	}
	return killed
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
	watch := gpuchurn.StartWatch(t, c)
	ch := &gpuchurn.Churn{C: c, Watch: watch, Pods: of.pods, Alive: of.alive, Unseen: of.unseen, Seed: seed}
	rs := &gpuchurn.Replicas{
		C: c, Binary: framework.Binary(t, framework.BerthScheduler), Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler), Args: gpuchurn.QuickElection(),
	}
	killed := 0
	rs.Fill(t)
	ch.Limit.Store(int64(of.unseen))
	arrived := make(chan error, 1)
	go func() { arrived <- ch.Run(t.Context()) }()

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
		for i, s := range rs.All {
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("scheduler-%d.log", i)), []byte(s.Output()), 0o600); err != nil {
				t.Log(err)
			}
		}
	})
	for i, moment := range moments {
		// Not many pods arrive without the kill that is due.
		ch.Limit.Store(int64(moment + of.unseen))
		framework.WaitForCondition(t, 4*framework.WaitTimeout, fmt.Sprintf("moment %d of %d", i, len(moments)), func() (bool, error) {
			rs.Fill(t)
			return ch.Arrivals() >= moment && rs.Leader() != nil, nil
		})
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond) // a moment, not a wait for something
		if restarts[i] {
			if err := c.KillComponent(localcluster.APIServer); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				killed += kill(rs, rng) // both at once
			}
			if err := c.RestartComponent(t.Context(), localcluster.APIServer); err != nil {
				t.Fatal(err)
			}
			continue
		}
		killed += kill(rs, rng)
	}
	ch.Limit.Store(math.MaxInt64)
	framework.WaitForCondition(t, 10*framework.WaitTimeout, "all pods to arrive", func() (bool, error) {
		rs.Fill(t)
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

	rs.Fill(t)
	r, pods := gpuchurn.WaitSettled(t, c, -1)
	history, versions, bindings := watch.History.Violations()
	if violations := slices.Concat(r.Violations, oracle.CheckLost(ch.Kept, pods), history); len(violations) > 0 {
		t.Error(violations)
	}
	for _, s := range rs.Running() {
		s.WaitReady(t)
		gpuchurn.RequireView(t, c, s, names.Scheduler)
	}
	unknown := 0
	for _, s := range rs.All {
		unknown += strings.Count(s.Output(), "It is not known whether the pod was bound")
	}
	conflicts := warned(t, c, "GPUDeviceConflict")
	t.Logf("%v: %d schedulers started and %d killed at %d moments, %d of them restarts of the API server, %d schedulers lost the lease and %d their cache; "+
		"%d pods created (%d by a name used before), %d deleted, %d of them ended before; %d versions with %d bindings seen; "+
		"at the end %d bound, %d pending; %d Bindings of unknown outcome, %d pods with conflict events",
		time.Since(start).Round(time.Second), len(rs.All), killed, len(moments), of.restarts, rs.Lost, rs.Corrupted,
		ch.Created, ch.Renamed, ch.Deleted, ch.Ended, versions, bindings, r.Bound, r.Pending, unknown, len(conflicts))
	if len(conflicts) > 0 {
		t.Errorf("conflicts were reported: %v", conflicts)
	}
}
