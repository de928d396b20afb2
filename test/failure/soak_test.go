// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"flag"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

var soak = flag.Duration("soak", 0, "how long TestSoak lets pods come and go; 0 skips it")

// soakStops is how often the pods stop, so that scheduler and API can be compared.
const soakStops = 6

// TestSoak lets pods arrive and leave for as long as -soak says. Each time they stop, the
// leader's indexes and reservations must say what the API says, and it must not have more
// goroutines than the first time, but for a tenth. Memory is told.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("-soak says for how long: make test-failure SOAK=1h")
	}
	shared := framework.NewShared(t, options(), func(c *framework.Cluster) { c.ApplyManifests(t, "manifests/base") })
	f := fault{}
	s := newScene(t, shared.Use(t, nodesOf(f)), f)
	leader := s.awaitLeader()
	var first float64
	for stop := range soakStops {
		s.startChurn()
		end := time.Now().Add(*soak / soakStops)
		framework.WaitForCondition(t, *soak, "the pods' time to be over", func() (bool, error) { return time.Now().After(end), nil })
		arrived := s.churn.Arrivals()
		s.stopChurn()
		s.requireRight()
		if s.awaitLeader() != leader {
			t.Fatal("another scheduler leads: this one has ended")
		}
		goroutines := s.metric(leader, "go_goroutines")
		t.Logf("stop %d: %d pods have come, %d versions and %d bindings checked so far; %.0f goroutines, %.0f MiB resident, %.0f MiB of heap in use",
			stop+1, arrived, s.versions, s.bindings, goroutines,
			s.metric(leader, "process_resident_memory_bytes")/(1<<20), s.metric(leader, "go_memstats_heap_inuse_bytes")/(1<<20))
		switch {
		case stop == 0:
			first = goroutines
		case goroutines > first*1.1:
			t.Errorf("stop %d: %.0f goroutines, and %.0f the first time", stop+1, goroutines, first)
		}
		s.deleteAll()
	}
}

// metric is one value of a scheduler's metrics.
func (s *scene) metric(of *framework.Scheduler, name string) float64 {
	s.t.Helper()
	values, err := oracle.Metric(of.Metrics(s.t), name, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return values[""]
}
