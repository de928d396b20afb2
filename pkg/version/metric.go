// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	kubeversion "k8s.io/component-base/version"
)

// RegisterMetric adds berth_build_info to the metrics of this process.
var RegisterMetric = sync.OnceFunc(func() {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "berth",
		Name:           "build_info",
		Help:           "Always 1; the labels say which Berth this is, which Kubernetes is compiled in, and with which Go and for which platform it was built.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "kubernetes_version", "go_version", "platform"})
	legacyregistry.MustRegister(info)
	k := kubeversion.Get()
	info.WithLabelValues(version, k.GitVersion, k.GoVersion, k.Platform).Set(1)
})
