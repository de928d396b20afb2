// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// BenchmarkPick measures one choice: what the binder itself adds to the price
// of a Binding.
func BenchmarkPick(b *testing.B) {
	for _, fit := range []Fit{FitConstraints, FitResources, FitNone} {
		for _, nodes := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("fit=%s/nodes=%d", fit, nodes), func(b *testing.B) {
				c := newTestCluster(fit, numberedNodes(nodes, withAllocatable("cpu", "1M", "pods", "1M"))...)
				pod := pendingPodObject("p", withRequests("cpu", "100m"))
				c.applyPod(pod)
				key, logger := cache.MetaObjectToName(pod), klog.Background()
				b.ReportAllocs()
				for b.Loop() {
					made := c.choose(logger, key)
					if made.feasible != nodes {
						b.Fatalf("%d nodes were feasible, want %d", made.feasible, nodes)
					}
					c.refused(key, made)
				}
			})
		}
	}
}
