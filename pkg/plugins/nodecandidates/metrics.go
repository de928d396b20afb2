// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// outcome is the value of the metric's label. The set is closed.
type outcome string

const (
	// foundCandidates is that nodes were offered.
	foundCandidates outcome = "Candidates"
	// foundAll is that every node that may fit can win.
	foundAll outcome = "AllNodes"
	// foundNone is that no node fits of those that were tried.
	foundNone outcome = "None"
	// missedAll is that none of the offered nodes fit in the end.
	missedAll outcome = "Missed"
)

var searches = metrics.NewCounterVec(plugin.CounterOpts("nodecandidates", "searches_total",
	"Number of attempts in which the nodes that can win were looked for, by what was found. "+
		"Missed counts the attempts, among those that found candidates, that are repeated with all nodes because none of the candidates fit."),
	[]string{"profile", "result"})

// registerMetrics registers the metric in the registry that kube-scheduler serves.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(searches) })

// counters are the counters of one profile.
type counters map[outcome]metrics.CounterMetric

func newCounters(profile string) counters {
	c := counters{}
	for _, o := range []outcome{foundCandidates, foundAll, foundNone, missedAll} {
		c[o] = searches.WithLabelValues(profile, string(o))
	}
	return c
}
