// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import "k8s.io/component-base/metrics"

// CounterOpts describes the counter berth_<subsystem>_<name>.
func CounterOpts(subsystem, name, help string) *metrics.CounterOpts {
	return &metrics.CounterOpts{Namespace: "berth", Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
}
