// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"os"
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

// TestOrders executes all orders of each scenario, or as many as there is time for. What it finds it
// prints as a history, and as an entry for the table of TestFormerOrders.
func TestOrders(t *testing.T) {
	budget := 10 * time.Second
	if given, err := time.ParseDuration(os.Getenv("INTERLEAVING_BUDGET")); err == nil {
		budget = given
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			r := explore(t, s, budget*3/4)
			t.Log(r)
			if r.wrong == "" && !r.complete {
				r = walk(t, s, 1, budget/4)
				t.Logf("then at random: %v", r)
			}
			if r.wrong != "" {
				found := r.foundAfter()
				r.shorten(t, s)
				t.Errorf("%s\n%s\n%s", found, r.history(), r.testCase(s))
			}
		})
	}
}
