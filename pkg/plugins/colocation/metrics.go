// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// outcome is the value of the label with the result of something. The set is
// closed, and no two metrics have one in common.
type outcome string

const (
	// Why Filter rejects a node: it has no peer within the required level, or lacks the
	// required topology key.
	nodeFits        outcome = ""
	nodeWithoutPeer outcome = "NoPeer"
	nodeUnlabeled   outcome = "NoTopologyLabel"

	// Why PreFilter rejects a pod on all nodes.
	rejectedMalformed        outcome = "Malformed"
	rejectedWaiting          outcome = "WaitingForPeer"
	rejectedNoTopologyKey    outcome = "NoTopologyKey"
	rejectedUnknownNamespace outcome = "UnknownNamespace"

	// How near the node that was chosen for a pod is to the peers that it prefers: a peer
	// is within the nearest topology key of one of its Services, within another key, or
	// nowhere near.
	placedNearest outcome = "Nearest"
	placedNear    outcome = "Near"
	placedApart   outcome = "Apart"
)

var (
	nodeRejections = newCounterVec("node_rejections_total", "reason",
		"Number of times that Filter rejected a node for a pod, by reason. "+
			"One pod counts once per node and attempt, and again in dry runs of preemption.")
	podRejections = newCounterVec("pod_rejections_total", "reason",
		"Number of attempts that ended before any node was looked at, by reason.")
	placements = newCounterVec("placements_total", "nearness",
		"Number of nodes that were chosen for pods that prefer to be near existing peers, by how near the node is to one of them.")
)

func newCounterVec(name, label, help string) *metrics.CounterVec {
	return metrics.NewCounterVec(plugin.CounterOpts("colocation", name, help), []string{"profile", label})
}

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeRejections, podRejections, placements)
	legacyregistry.CustomMustRegister(theDriftCollector)
})

// counters are the counters of one profile.
type counters map[outcome]metrics.CounterMetric

func newCounters(profile string) counters {
	c := counters{}
	for vector, outcomes := range map[*metrics.CounterVec][]outcome{
		nodeRejections: {nodeWithoutPeer, nodeUnlabeled},
		podRejections:  {rejectedMalformed, rejectedWaiting, rejectedNoTopologyKey, rejectedUnknownNamespace},
		placements:     {placedNearest, placedNear, placedApart},
	} {
		for _, o := range outcomes {
			c[o] = vector.WithLabelValues(profile, string(o))
		}
	}
	return c
}
