// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	metricsNamespace = "berth"
	metricsSubsystem = "colocation"
)

// nodeRejection is why Filter refuses a node. The set is closed.
type nodeRejection uint8

const (
	nodeFits nodeRejection = iota
	// nodeWithoutPeer has no peer within the level that is required.
	nodeWithoutPeer
	// nodeUnlabelled lacks the topology key that is required.
	nodeUnlabelled
	// nodeCrowded has as many pods as maxPerNode allows.
	nodeCrowded
	rejectionCount
)

// String returns the rejection as a metric label.
func (r nodeRejection) String() string {
	return [...]string{"", "NoPeer", "NoTopologyLabel", "MaxPerNode"}[r]
}

// podRefusal is why PreFilter refuses a pod on all nodes. The set is closed.
type podRefusal uint8

const (
	refusalMalformed podRefusal = iota
	refusalWaiting
	refusalNoTopologyKey
	refusalUnknownNamespace
	refusalCount
)

// String returns the refusal as a metric label.
func (r podRefusal) String() string {
	return [...]string{"Malformed", "WaitingForPeer", "NoTopologyKey", "UnknownNamespace"}[r]
}

// searchResult is what the search among the nodes near the peers came to. The set
// is closed.
type searchResult uint8

const (
	// searchBeside found a node that has a peer itself.
	searchBeside searchResult = iota
	// searchNear found a node that is near a peer.
	searchNear
	// searchNone found none that fits: all nodes are looked at.
	searchNone
	// searchMistaken found one that was refused in the end.
	searchMistaken
	resultCount
)

// String returns the result as a metric label.
func (r searchResult) String() string {
	return [...]string{"Beside", "Near", "None", "Mistaken"}[r]
}

var (
	nodeRejections = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace,
		Subsystem: metricsSubsystem,
		Name:      "node_rejections_total",
		Help: "Number of times that Filter refused a node to a pod, by reason. " +
			"One pod counts once per node and attempt, and again in simulations of preemption.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "reason"})

	podRefusals = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "pod_refusals_total",
		Help:           "Number of attempts that ended before any node was looked at, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "reason"})

	searches = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "searches_total",
		Help:           "Number of searches among the nodes nearest to a pod's peers, by what they came to.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})

	registerMetricsOnce sync.Once
)

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
func registerMetrics() {
	registerMetricsOnce.Do(func() {
		legacyregistry.MustRegister(nodeRejections, podRefusals, searches)
	})
}

// counters are the counters of one profile.
type counters struct {
	rejections [rejectionCount]metrics.CounterMetric
	refusals   [refusalCount]metrics.CounterMetric
	searches   [resultCount]metrics.CounterMetric
}

func newCounters(profile string) counters {
	var c counters
	for r := nodeFits + 1; r < rejectionCount; r++ {
		c.rejections[r] = nodeRejections.WithLabelValues(profile, r.String())
	}
	for r := range refusalCount {
		c.refusals[r] = podRefusals.WithLabelValues(profile, r.String())
	}
	for r := range resultCount {
		c.searches[r] = searches.WithLabelValues(profile, r.String())
	}
	return c
}
