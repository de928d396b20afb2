// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// selectHost scores the feasible nodes, at least one, and draws
// one of the best. A single one is not scored, and without score plugins all are
// alike; so it is upstream. chosen is taken instead unless it is empty.
func (e *Engine) selectHost(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, chosen string) (string, []fwk.NodePluginScores, error) {
	if chosen != "" && !slices.ContainsFunc(feasible, func(node fwk.NodeInfo) bool { return node.Node().Name == chosen }) {
		return "", nil, fmt.Errorf("node %q is not among the %d feasible ones", chosen, len(feasible))
	}
	if len(feasible) == 1 || !fw.HasScorePlugins() {
		return cmp.Or(chosen, feasible[0].Node().Name), nil, nil
	}
	if status := fw.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return "", nil, status.AsError()
	}
	scores, status := fw.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return "", nil, status.AsError()
	}
	drawn := e.draw(scores)
	return cmp.Or(chosen, drawn), scores, nil
}

// draw returns one of the nodes with the best score, each with the same
// probability.
func (e *Engine) draw(scores []fwk.NodePluginScores) string {
	best, ties := scores[0].TotalScore, 0
	for i := range scores {
		switch score := scores[i].TotalScore; {
		case score > best:
			best, ties = score, 1
		case score == best:
			ties++
		}
	}
	drawn := 0
	if ties > 1 {
		drawn = e.rand.IntN(ties)
	}
	for i := range scores {
		if scores[i].TotalScore != best {
			continue
		}
		if drawn == 0 {
			return scores[i].Name
		}
		drawn--
	}
	return "" // not reached: best is the score of a node
}
