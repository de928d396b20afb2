// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// checkPools finds schedulers that serve one GPU pool and can run at the same time: each
// would give the last share of a device. Those of one lease take turns.
func (c *checker) checkPools() {
	for i, s := range c.schedulers {
		pool, ok := poolOf(s.profile)
		if !ok {
			continue
		}
		for _, other := range c.schedulers[:i] {
			if theirs, ok := poolOf(other.profile); !ok || theirs != pool || takeTurns(s, other) {
				continue
			}
			c.found(Finding{
				Error, s.profile.Source, fmt.Sprintf("profiles[].pluginConfig[%s].args.pool", gpudevice.Name),
				fmt.Sprintf("is %q, the same as in %s: both allocate shares of the same devices", pool, other.object),
				fmt.Sprintf("give each its own pool, and label its nodes with %s: ", names.GPUPoolLabel) + s.by.or("set pool in its profile", s.by.upgrade("gpu.pool")),
			})
		}
	}
}

// poolOf returns the GPU pool of the profiles, and whether one shares devices: all have the
// same pool.
func poolOf(p *settings.Profile) (string, bool) {
	pools := slices.Collect(maps.Values(registry.Pools(p.Config, p.Effective)))
	if len(pools) == 0 {
		return "", false
	}
	return pools[0], true
}

// takeTurns reports whether two schedulers elect one leader.
func takeTurns(a, b *runningScheduler) bool {
	one, two := a.profile.Config.LeaderElection, b.profile.Config.LeaderElection
	return one.LeaderElect && two.LeaderElect && one.ResourceNamespace == two.ResourceNamespace && one.ResourceName == two.ResourceName
}
