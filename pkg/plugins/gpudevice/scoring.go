// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

const (
	// noDevicesScore is the score of a node without devices for a pod that asks for
	// none: above every score of a node with devices.
	noDevicesScore = device.MaxGradientScore + 1
)

// PreScore prepares what the scores of all nodes need. It skips the pods that do
// not concern the plugin.
func (pl *GPUDevice) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	filtered := getPreFilterStateOrNil(state)
	if filtered == nil || !filtered.scored() || filtered.isWithoutDevices() && pl.leavesNonGPUPodsAlone() {
		return fwk.NewStatus(fwk.Skip)
	}
	s := pl.preScoreStateOf(filtered)
	s.extended = pl.isFilteredByExtender(pod)
	state.Write(preScoreStateKey, s)
	return nil
}

// isFilteredByExtender reports whether an extender filters the nodes for the pod. Unless it is
// nodeCacheCapable, the framework scores its nodes as if no pod were on them
// (https://github.com/kubernetes/kubernetes/issues/141781).
func (pl *GPUDevice) isFilteredByExtender(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pl.handle.Extenders(), func(e fwk.Extender) bool { return e.IsFilter() && e.IsInterested(pod) })
}

// preScoreStateOf returns what the scores of all nodes need, the same for the whole cycle.
func (pl *GPUDevice) preScoreStateOf(filtered *preFilterState) *preScoreState {
	if filtered.scoring == nil {
		s := &preScoreState{
			podRequest: filtered.podRequest,
			maxNode:    filtered.maxNode,
			workload:   pl.workload.published.Load(),
			request:    filtered.podRequest.Request.Key(),
			ranked:     filtered.isWithoutDevices() || pl.workload.read,
		}
		s.key = pl.scoreKeys.of(s)
		filtered.scoring = s
	}
	return filtered.scoring
}

// Score rates a node by the strategy. For a pod that asks for no device, every
// node without devices is better than every node with some.
func (pl *GPUDevice) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := getPreScoreState(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if s.extended {
		if nodeInfo, err = pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeInfo.Node().Name); err != nil {
			return 0, fwk.AsStatus(err)
		}
	}
	return pl.score(s, pl.view(nodeInfo, false)), nil
}

// score is Score of the node of a view.
func (pl *GPUDevice) score(s *preScoreState, v *nodeView) int64 {
	if s.podRequest.Request.Kind == device.RequestNone && !v.hasDevices() {
		return noDevicesScore
	}
	if !v.hasUsage {
		return 0
	}
	return v.memoScore(s.key, func() int64 {
		input := device.CandidateNode{Usage: &v.usage, CPUMilli: v.cpuFree, MaxNode: s.maxNode, Workload: s.workload.forNode(v.node)}
		return pl.strategy.Score(input, s.podRequest)
	})
}

// memoScore returns the score that is remembered under the key, and computes it
// if there is none. A slot holds the key and the score in one word, so that
// readers and writers in parallel need no lock; the score is below 2^scoreBits,
// and the keys that are left last for decades.
func (v *nodeView) memoScore(key uint64, compute func() int64) int64 {
	const scoreBits = 28
	slot := &v.scores[key%scoreSlots]
	if packed := slot.Load(); packed>>scoreBits == key {
		return int64(packed & (1<<scoreBits - 1)) //nolint:gosec // 28 bits
	}
	score := compute()
	slot.Store(key<<scoreBits | uint64(score)) //nolint:gosec // not negative
	return score
}

// ScoreExtensions returns the plugin: scores may be an order and must be normalised.
func (pl *GPUDevice) ScoreExtensions() fwk.ScoreExtensions {
	return pl
}

// NormalizeScore turns an order into 0 to 100: the best score becomes 100, the
// next best 99 and so on, and what would be below 0 is 0. Nodes with equal scores
// stay equal, and among the best hundred scores no two are merged; stretching the
// range would merge the best ones where a few bad ones are far off. Amounts (0 to
// 100 already) are left alone.
func (pl *GPUDevice) NormalizeScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, err := getPreScoreState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s.ranked {
		candidates.NormalizeScores(scores)
	}
	return nil
}

// scoreKeys numbers what a score depends on beside the node. A number is never
// given twice.
type scoreKeys struct {
	last uint64
	keys map[scoreKey]uint64
}

type scoreKey struct {
	epoch   uint64
	maxNode device.MaxNode
	cpu     int64
	// request is without constraints: the pod is scored on those devices alone that it
	// accepts. Whether there are any, constrained, matters to the price of scarce devices.
	request     device.RequestKey
	constrained bool
}

// maxScoreKeys bounds the memory; when it is reached, all are forgotten.
const maxScoreKeys = 4096

// of returns the number of what s asks for.
func (k *scoreKeys) of(s *preScoreState) uint64 {
	key := scoreKey{maxNode: s.maxNode, cpu: s.podRequest.CPUMilli, request: s.request, constrained: s.podRequest.Request.Constrained()}
	key.request.Models, key.request.MinMemoryMiB = device.Models{}, 0
	if s.workload != nil {
		key.epoch = s.workload.epoch
	}
	if number, ok := k.keys[key]; ok {
		return number
	}
	if k.keys == nil || len(k.keys) >= maxScoreKeys {
		k.keys = map[scoreKey]uint64{}
	}
	k.last++
	k.keys[key] = k.last
	return k.last
}
