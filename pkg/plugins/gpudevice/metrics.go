// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	metricsNamespace = "berth"
	metricsSubsystem = "gpudevice"
)

// Values of the label reason of pod_refusals_total beside those of
// device.RequestReason.
const (
	// refusalNoNode is a request that no node of the cluster could serve if it were
	// empty.
	refusalNoNode = "NoNode"
	// refusalInvalid is a request that cannot be read for another reason.
	refusalInvalid = "Invalid"
)

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
		Help:           "Number of attempts that ended because the pod's request for devices can never be served, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "reason"})

	conflicts = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "assignment_conflicts_total",
		Help:           "Number of pods that were seen bound to a device of which more is held than it has: two schedulers bound at once.",
		StabilityLevel: metrics.ALPHA,
	})

	unrecordedPods = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "unassigned_pods_total",
		Help:           "Number of pods that were seen bound and using devices without a record of which that can be believed.",
		StabilityLevel: metrics.ALPHA,
	})

	recordEdits = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "record_edits_total",
		Help:           "Number of changes to the record of a bound pod's devices. The first record counts; a change frees nothing.",
		StabilityLevel: metrics.ALPHA,
	})

	unknownBindings = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "bindings_in_doubt_total",
		Help:           "Number of Bindings of which the API server did not say whether they were written.",
		StabilityLevel: metrics.ALPHA,
	})

	registerMetricsOnce sync.Once
)

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
func registerMetrics() {
	registerMetricsOnce.Do(func() {
		legacyregistry.MustRegister(nodeRejections, podRefusals, conflicts, unrecordedPods, recordEdits, unknownBindings)
		legacyregistry.CustomMustRegister(theCollector)
	})
}

// counters are the counters of one profile.
type counters struct {
	rejections [device.Reasons]metrics.CounterMetric
	refusals   *metrics.CounterVec
}

func newCounters(profile string) counters {
	c := counters{refusals: podRefusals}
	for r := device.Fits + 1; r < device.Reasons; r++ {
		c.rejections[r] = nodeRejections.WithLabelValues(profile, r.String())
	}
	return c
}
