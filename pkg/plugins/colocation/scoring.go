// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore skips the pods that no peer attracts. Everything that Score reads,
// PreFilter has prepared.
func (pl *Colocation) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if s := optionalCycleState(state); s == nil || s.weight == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates a node by how near it is to the peers. It takes no lock and
// allocates nothing.
func (pl *Colocation) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := readCycleState(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return s.score(nodeInfo.Node().Labels), nil
}

// ScoreExtensions returns nil: scores are 0 to 100 already. To stretch them to the
// whole range, as NormalizeScore usually does, would make the least difference
// decide as much as the greatest.
func (pl *Colocation) ScoreExtensions() fwk.ScoreExtensions {
	return nil
}
