// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
)

// preferences is args.preferences, compiled.
type preferences struct {
	terms []term
	// total is the sum of all weights, at least 1 if there is a term.
	total int64
}

// term is one preference.
type term struct {
	label    string
	presence bool
	weight   int64
}

func newPreferences(args []config.LabelPresencePreference) preferences {
	var p preferences
	for _, preference := range args {
		w := term{label: preference.Label, presence: *preference.Presence, weight: int64(preference.Weight)}
		p.terms = append(p.terms, w)
		p.total += w.weight
	}
	return p
}

// score returns 100 * (sum of the weights of the satisfied preferences) / (sum
// of all weights), rounded down: 0 if a node satisfies none, 100 if it satisfies
// all. Weights are 1 to 100, so nothing overflows. Without a preference it returns 0.
func (p *preferences) score(nodeLabels map[string]string) int64 {
	if p.total == 0 {
		return 0 // PreScore skips the plugin; but another plugin may ask for scores alone
	}
	var satisfied int64
	for i := range p.terms {
		if _, present := nodeLabels[p.terms[i].label]; present == p.terms[i].presence {
			satisfied += p.terms[i].weight
		}
	}
	return fwk.MaxScore * satisfied / p.total
}

// PreScore has nothing to prepare: preferences apply to every pod alike. It
// spares the framework the calls to Score if there are none.
func (pl *LabelPresence) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	if len(pl.preferences.terms) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates a node by the preferences that it satisfies.
func (pl *LabelPresence) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	return pl.preferences.score(nodeInfo.Node().Labels), nil
}

// ScoreExtensions returns nil: scores are 0 to 100 already. To stretch them to
// the whole range, as NormalizeScore usually does, would make the least of
// several preferences decide as much as all together whenever the candidates
// differ in that one alone.
func (pl *LabelPresence) ScoreExtensions() fwk.ScoreExtensions {
	return nil
}
