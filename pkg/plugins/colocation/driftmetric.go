// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"maps"
	"sync"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

var driftDesc = metrics.NewDesc("berth_colocation_index_drift",
	"Number of differences between the index of peers and the informer, or between its counts and its pods. Briefly above 0 while events are processed.",
	[]string{"profile"}, nil, metrics.ALPHA, "")

// theDriftCollector compares the indexes of the profiles that run with their informers when
// it is asked. It is one for the process, as the registry that it is in is.
var theDriftCollector = &driftCollector{indexes: map[string]*peers.Index{}}

// driftCollector has the index of each profile.
type driftCollector struct {
	metrics.BaseStableCollector

	mu      sync.Mutex
	indexes map[string]*peers.Index
}

// add adds the index of a profile until ctx ends. Of profiles of the same name, one after
// another in a process, the last one counts.
func (c *driftCollector) add(ctx context.Context, profile string, index *peers.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.indexes[profile] = index
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.indexes[profile] == index {
			delete(c.indexes, profile)
		}
	})
}

// DescribeWithStability implements metrics.StableCollector.
func (c *driftCollector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- driftDesc }

// CollectWithStability implements metrics.StableCollector.
func (c *driftCollector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	indexes := maps.Clone(c.indexes)
	c.mu.Unlock()
	drift := map[*peers.Index]int{} // profiles share one
	for profile, index := range indexes {
		if _, ok := drift[index]; !ok {
			drift[index] = index.Drift()
		}
		ch <- metrics.NewLazyConstMetric(driftDesc, metrics.GaugeValue, float64(drift[index]), profile)
	}
}
