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
	if s := getPreFilterStateOrNil(state); s == nil || s.weight == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates a node by how near it is to the peers. It takes no lock and
// allocates nothing.
func (pl *Colocation) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := getPreFilterState(state)
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

// score rates a node with these labels for all targets, 0 to fwk.MaxScore: the
// average of the targets, by their weights; 0 if none has a weight.
func (s *preFilterState) score(labels map[string]string) int64 {
	if s.weight == 0 {
		return 0 // PreScore skips the pod; but another plugin may ask for scores alone
	}
	return fwk.MaxScore * rawScore(s.targets, labels) / (scoreScale * s.weight)
}

// rawScore is score in the finest steps, 0 to scoreScale times the weights.
// Weights are at most 10,000 for each of at most 32 Services of at most 1,001
// terms, so nothing overflows.
func rawScore(targets []target, labels map[string]string) int64 {
	var sum int64
	for i := range targets {
		sum += targets[i].weight * targets[i].score(labels)
	}
	return sum
}

// scoreScale is the score of a target for a node that has all peers itself.
const scoreScale = 1000

// score rates a node with these labels for the target, 0 to scoreScale.
//
// With n levels, scoreScale is divided into n equal steps. The nearest level that
// the node shares with any peer decides the step: a call that may be answered by
// any peer stays within it. Within the step it counts how near all peers are: the
// share of the peers within each level, averaged over the levels. That is what is
// left of a call that goes to all of them alike. A node that shares no level with
// any peer has 0, every other more.
//
// It allocates nothing.
func (t *target) score(labels map[string]string) int64 {
	if t.weight == 0 {
		return 0
	}
	return t.scoreOf(t.nearest(labels))
}

// nearest returns the index of the nearest level that a node with these labels shares
// with a peer, the number of levels if none, and the sum of the peers within each level.
func (t *target) nearest(labels map[string]string) (nearest, within int) {
	nearest = len(t.levels)
	for i := range t.levels {
		value, ok := labels[t.levels[i].key]
		if !ok {
			continue
		}
		if n := t.levels[i].peers.Within(value); n > 0 {
			nearest = min(nearest, i)
			within += n
		}
	}
	return nearest, within
}

// countPlacement counts how near the node that was chosen is to the peers, if the pod
// prefers any that are there.
func (pl *Colocation) countPlacement(state fwk.CycleState, nodeName string) {
	s := getPreFilterStateOrNil(state)
	if s == nil || s.weight == 0 {
		return
	}
	node, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil || node.Node() == nil {
		return // it went meanwhile, and so will the reservation
	}
	placed := placedApart
	for i := range s.targets {
		t := &s.targets[i]
		if t.weight == 0 {
			continue
		}
		switch nearest, _ := t.nearest(node.Node().Labels); {
		case nearest == 0:
			placed = placedNearest
		case nearest < len(t.levels) && placed == placedApart:
			placed = placedNear
		}
	}
	pl.counters[placed].Inc()
}

// scoreOf is the score of a node that shares the level of index nearest with a peer
// (the number of levels if none), with the sum of the peers within each level.
func (t *target) scoreOf(nearest, within int) int64 {
	levels := int64(len(t.levels))
	if int64(nearest) == levels {
		return 0
	}
	step := scoreScale / levels
	// At least 1, so that the step below stays apart; a level may hold more peers
	// than there are only if the same key counts twice, which parsing excludes.
	share := max(1, step*int64(within)/(levels*int64(t.view.Total())))
	return step*(levels-int64(nearest)-1) + min(step, share)
}
