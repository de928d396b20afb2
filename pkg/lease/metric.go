// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// RegisterMetric adds berth_lease_held_by_another to the metrics of this process, which
// tells of lock. It panics if there is one already: a process waits for one lease.
func RegisterMetric(lock *Lock) { legacyregistry.RawMustRegister(newMetric(lock)) }

func newMetric(lock *Lock) metrics.GaugeFunc {
	return metrics.NewGaugeFunc(&metrics.GaugeOpts{
		Namespace: "berth",
		Subsystem: "lease",
		Name:      "held_by_another",
		Help: "1 while the lease that this process waits for is held by a scheduler that serves none of its names, and so for ever; " +
			"0 while it leads, waits for a replica of its own, or has not read the lease yet.",
		StabilityLevel: metrics.ALPHA,
	}, func() float64 {
		if lock.Waits() != nil {
			return 1
		}
		return 0
	})
}
