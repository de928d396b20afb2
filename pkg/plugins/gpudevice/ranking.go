// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// rank returns what Filter and Score say of all nodes.
func (pl *GPUDevice) rank(filtered *preFilterState, nodes []fwk.NodeInfo) *candidates.Ranking {
	s := pl.newPreScoreState(filtered)
	ranking := &candidates.Ranking{Scores: make([]int32, len(nodes)), Ordinal: s.ranked}
	for i, nodeInfo := range nodes {
		v := pl.view(nodeInfo, false)
		ranking.Scores[i] = candidates.Unfit
		if v.check(filtered) == device.Fits {
			ranking.Scores[i] = int32(pl.score(s, v)) //nolint:gosec // 28 bits
		}
	}
	return ranking
}
