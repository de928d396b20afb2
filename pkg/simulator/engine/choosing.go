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

// choice is the node that was chosen, and how.
type choice struct {
	node     string
	ties     int
	decision *Decision
}

// choose scores the feasible nodes, of which there is at least one, and draws one
// of the best. A single one is not scored, and without score plugins all are
// alike; so it is upstream. given is chosen instead unless it is empty.
func (e *Engine) choose(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, given string) (choice, error) {
	if given != "" && !slices.ContainsFunc(feasible, func(node fwk.NodeInfo) bool { return node.Node().Name == given }) {
		return choice{}, fmt.Errorf("node %q is not among the %d feasible ones", given, len(feasible))
	}
	c := choice{ties: 1}
	if e.explains {
		c.decision = &Decision{Scores: map[string]map[string]int64{}, Totals: map[string]int64{}}
		for _, node := range feasible {
			c.decision.Feasible = append(c.decision.Feasible, node.Node().Name)
		}
	}
	if len(feasible) == 1 || !fw.HasScorePlugins() {
		c.node = cmp.Or(given, feasible[0].Node().Name)
		return c, nil
	}
	if status := fw.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return choice{}, status.AsError()
	}
	scores, status := fw.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return choice{}, status.AsError()
	}
	c.decision.record(scores)
	c.node, c.ties = e.draw(scores)
	c.node = cmp.Or(given, c.node)
	return c, nil
}

// draw returns one of the nodes with the best score, each with the same
// probability, and how many they are.
func (e *Engine) draw(scores []fwk.NodePluginScores) (node string, ties int) {
	best := scores[0].TotalScore
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
			return scores[i].Name, ties
		}
		drawn--
	}
	return "", 0 // not reached: best is the score of a node
}

// record keeps the scores.
func (d *Decision) record(scores []fwk.NodePluginScores) {
	if d == nil {
		return
	}
	for i := range scores {
		byPlugin := make(map[string]int64, len(scores[i].Scores))
		for _, score := range scores[i].Scores {
			byPlugin[score.Name] = score.Score
		}
		d.Scores[scores[i].Name] = byPlugin
		d.Totals[scores[i].Name] = scores[i].TotalScore
	}
}
