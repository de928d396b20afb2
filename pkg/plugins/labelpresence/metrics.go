// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

const (
	metricsSubsystem = "labelpresence"

	// ruleTenancy is the value of the label "rule" for tenancy. The other values
	// are rules[0], rules[1] and so on: as many as the arguments have rules.
	ruleTenancy = "tenancy"
)

var (
	nodeRejections = metrics.NewCounterVec(plugin.CounterOpts(metricsSubsystem, "node_rejections_total",
		"Number of times that Filter rejected a node for a pod, by the first rule of the profile that the node broke (rules[i] or tenancy). "+
			"One pod counts once per node and attempt, and again in simulations of preemption."), []string{"profile", "rule"})

	tenancyViolations = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "berth",
		Subsystem:      metricsSubsystem,
		Name:           "tenancy_violations",
		Help:           "Number of pods that are on a node where the tenancy of the profile does not allow them, whoever put them there.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
)

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeRejections, tenancyViolations)
})
