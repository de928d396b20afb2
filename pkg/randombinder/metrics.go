// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	// Register the metrics of client-go's requests and work queues.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
)

const (
	metricsNamespace = "berth"
	metricsSubsystem = "random_scheduler"
)

// The values of the label result of schedule_attempts_total.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultSuperseded    = "superseded"
	resultError         = "error"
)

// binderMetrics are one binder's own; a process may have several binders, in
// tests.
type binderMetrics struct {
	registry     metrics.KubeRegistry
	attempts     *metrics.CounterVec
	bindDuration *metrics.HistogramVec
}

// newMetrics registers the metrics of one binder. counts returns how many pods
// wait, and how many of these are parked until something changes.
func newMetrics(counts func() (waiting, parked int)) *binderMetrics {
	m := &binderMetrics{
		registry: metrics.NewKubeRegistry(),
		attempts: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace:      metricsNamespace,
			Subsystem:      metricsSubsystem,
			Name:           "schedule_attempts_total",
			Help:           "Attempts to give a pod a node, by result: scheduled; unschedulable, no node is eligible; superseded, the pod was bound or deleted by somebody else; error, the Binding failed and will be sent again.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		bindDuration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace:      metricsNamespace,
			Subsystem:      metricsSubsystem,
			Name:           "bind_duration_seconds",
			Help:           "Time from sending a Binding until its outcome was known, client-side rate limiting included, by outcome: done, superseded, refused, in_doubt; undone, not sent again and seen not to have happened.",
			Buckets:        metrics.ExponentialBuckets(0.001, 2, 14),
			StabilityLevel: metrics.ALPHA,
		}, []string{"outcome"}),
	}
	pending := func(queue string, count func() int) metrics.GaugeFunc {
		return metrics.NewGaugeFunc(&metrics.GaugeOpts{
			Namespace:      metricsNamespace,
			Subsystem:      metricsSubsystem,
			Name:           "pending_pods",
			Help:           "Pods that wait for a node, by queue: active, waiting for a worker, an answer or the end of a back-off; unschedulable, waiting for a node or pod to change.",
			ConstLabels:    map[string]string{"queue": queue},
			StabilityLevel: metrics.ALPHA,
		}, func() float64 { return float64(count()) })
	}
	m.registry.MustRegister(m.attempts, m.bindDuration)
	m.registry.RawMustRegister(
		pending("active", func() int { waiting, parked := counts(); return waiting - parked }),
		pending("unschedulable", func() int { _, parked := counts(); return parked }),
	)
	for _, result := range []string{resultScheduled, resultUnschedulable, resultSuperseded, resultError} {
		// A series that exists from the start can be alerted on.
		m.attempts.WithLabelValues(result)
	}
	return m
}

// gatherer returns the binder's metrics and those of the process.
func (m *binderMetrics) gatherer() metrics.Gatherer {
	return prometheus.Gatherers{legacyregistry.DefaultGatherer, m.registry}
}
