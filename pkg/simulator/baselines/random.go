// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"context"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// Random draws devices, and through the plugin below nodes, each with the same
// probability. It is not safe for concurrent use.
type Random struct {
	// Rand is the source of its choices.
	Rand *rand.Rand
}

var _ device.Strategy = Random{}

// String returns the name.
func (Random) String() string { return "Random" }

// Score is the same for every node.
func (Random) Score(device.CandidateNode, device.PodRequest) int64 { return 0 }

// Pick draws one of the candidates.
func (r Random) Pick(_ device.CandidateNode, _ device.PodRequest, _ device.Usage, candidates device.Set, _ device.Share) int {
	skip := r.Rand.IntN(candidates.Len())
	for range skip {
		candidates &= candidates - 1
	}
	return candidates.Lowest()
}

// randomPlugin is GPUDevice with Random as its strategy. Drawing a node once per cycle,
// instead of a score per node, keeps the result independent of the order in which nodes
// are scored.
type randomPlugin struct {
	*gpudevice.GPUDevice

	random Random
}

// drawnKey is where PreScore leaves the node that it drew.
const drawnKey fwk.StateKey = "PreScoreRandom"

// drawnNode is the name of a node.
type drawnNode string

// Clone returns the name itself: it does not change.
func (d drawnNode) Clone() fwk.StateData { return d }

// PreScore draws one of the nodes by name: in which order they passed Filter is a
// matter of chance, and the same seed is to draw the same ones.
func (pl *randomPlugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	status := pl.GPUDevice.PreScore(ctx, state, pod, nodes)
	if !status.IsSuccess() || len(nodes) == 0 {
		return status
	}
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Node().Name)
	}
	slices.Sort(names)
	state.Write(drawnKey, drawnNode(names[pl.random.Rand.IntN(len(names))]))
	return nil
}

// Score gives the node that was drawn all and the others nothing, but for a node without
// devices that a pod without devices had better use.
func (pl *randomPlugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	score, status := pl.GPUDevice.Score(ctx, state, pod, node)
	if !status.IsSuccess() || score > 0 {
		return score, status
	}
	drawn, err := state.Read(drawnKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if drawn == drawnNode(node.Node().Name) {
		return device.MaxScore, nil
	}
	return 0, nil
}
