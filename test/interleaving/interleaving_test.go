// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	metrics.Register() // the cache counts without asking whether they are
	klog.SetLogger(klog.Logger{})
	os.Exit(m.Run())
}

// TestOrders executes all orders of each scenario, or as many as there is time for, and beside those
// random ones where that is not all. What it finds it prints as a history, and as an entry for the table of TestFormerOrders.
//
// BERTH_LONG=1 gives each scenario 45 seconds, or its own budget, and INTERLEAVING_BUDGET=5m as much as it says.
// INTERLEAVING_WAY=orders leaves the random ones out, and INTERLEAVING_WAY=random all others.
func TestOrders(t *testing.T) {
	runs, budget := 700, time.Hour
	if os.Getenv("BERTH_LONG") == "1" {
		runs, budget = math.MaxInt, 45*time.Second
	}
	if given, err := time.ParseDuration(os.Getenv("INTERLEAVING_BUDGET")); err == nil {
		runs, budget = math.MaxInt, given
	}
	way, taken := os.Getenv("INTERLEAVING_WAY"), map[string]int{}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			r := &result{}
			budget := budget
			if s.budget > 0 && os.Getenv("BERTH_LONG") == "1" {
				budget = s.budget
			}
			if way != "random" {
				r = explore(t, s, runs, budget)
				t.Log(r)
				addTo(taken, r.transitions())
			}
			if way != "orders" && r.wrong == "" && !r.complete {
				r = walk(t, s, 1, runs/4, budget/4)
				t.Logf("at random: %v", r)
				addTo(taken, r.transitions())
			}
			if s.foreign && r.wrong == "" && !slices.ContainsFunc(slices.Collect(maps.Keys(r.coverage)), func(what string) bool { return strings.Contains(what, withoutRecord) }) {
				t.Errorf("no pod was rejected with %q, so the other scenarios cannot see it either", withoutRecord)
			}
			if r.wrong != "" {
				found := r.foundAfter()
				r.shorten(t, s)
				t.Errorf("%s\n%s\n%s", found, r.history(), r.testCase(s))
			}
		})
	}
	for what, n := range taken {
		t.Logf("%8d times %s", n, what)
		if !slices.Contains(ledgerTransitions, what) {
			t.Errorf("the transition %s is in no diagram", what)
		}
	}
	for _, what := range ledgerTransitions {
		if taken[what] == 0 && len(taken) > 0 && os.Getenv("INTERLEAVING_BUDGET") == "" {
			t.Errorf("no order took the transition %s", what)
		}
	}
}

// ledgerTransitions are those of the diagram in gpudevice's allocationCache, as the steps show them: within one
// step, an allocation in doubt is assumed once more and taken back.
var ledgerTransitions = []string{
	"absent -> assumed", "assumed -> absent", "assumed -> bindingUnknown", "assumed -> bound", "assumed -> unrecorded",
	"bindingUnknown -> absent", "bindingUnknown -> bound", "bindingUnknown -> unrecorded", "absent -> bound", "bound -> absent", "absent -> unrecorded", "unrecorded -> absent",
}

func addTo(sum, more map[string]int) {
	for what, n := range more {
		sum[what] += n
	}
}

// TestFormerOrders executes orders that once went wrong, as TestOrders has printed them.
func TestFormerOrders(t *testing.T) {
	for _, former := range []struct {
		name, scenario string
		order          []string
	}{
		{
			name: "G8: a Binding of a killed process arrives after its successor has given the device on", scenario: "handover",
			order: []string{"P1 tries a", "P1 is killed", "P2 leads", "P2 list#1", "P2 patch a#1", "P2 patch b#1"},
		},
		{
			name: "a Binding is undone by a restore before its process has seen it", scenario: "restore",
			order: []string{"P1 tries b", "P1 bind b#1", "etcd is restored", "P1 lists anew"},
		},
	} {
		t.Run(former.name, func(t *testing.T) {
			s := scenarios[slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == former.scenario })]
			if wrong := replay(t, s, former.order); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
