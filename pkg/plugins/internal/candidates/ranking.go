// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candidates is what a plugin that knows by itself how good every node is for a pod
// tells the plugin NodeCandidates in a scheduling cycle: a ranking of all nodes, by
// which the cycle is narrowed to those that can win.
package candidates

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// Unfit is the score in a Ranking of a node that the plugin's own Filter rejects.
const Unfit int32 = -1

// Ranking is what one plugin knows by itself of all nodes for one pod.
type Ranking struct {
	// Scores are by position in the nodes that PreFilter was given: what the plugin's
	// Score would return for the node in this cycle, before NormalizeScore, or Unfit.
	// They belong to the plugin, which changes them no earlier than in the next cycle.
	// No other code may change them.
	Scores []int32
	// Ordinal is whether NormalizeScore makes an order of the scores: the best of the
	// nodes that fit gets 100, each next distinct one a point less, and what would be
	// below 0 gets 0. If it is false the scores are 0 to 100 as they are.
	Ordinal bool
}

// Written is a plugin's answer to the question how it ranks the nodes for a pod.
type Written struct {
	// Plugin is its name.
	Plugin string
	// Rank computes the ranking; nil if the plugin neither scores nor rejects a node.
	// It is to be called within PreFilter of the cycle, by the goroutine that
	// schedules. It returns nil if the plugin cannot tell.
	Rank func() *Ranking
}

// Write leaves in the state of a cycle how a plugin ranks the nodes for the pod. PreFilter
// calls it, also where it returns Skip. rank is called only if NodeCandidates is in the
// profile and can narrow the cycle, and then before any other cycle begins.
//
// A cycle is narrowed only for plugins that write a ranking in it. One that scores nodes
// for the pod, and would not have the cycle narrowed for that, writes in the dry run
// alone (IsDryRun): its ranking then counts beside those of others. So does, with nil, one
// that scores none, which costs other cycles nothing. A plugin that writes neither is
// assumed to score nodes in an unknown way.
func Write(state fwk.CycleState, plugin string, rank func() *Ranking) {
	written := Read(state)
	if slices.ContainsFunc(written, func(w Written) bool { return w.Plugin == plugin }) {
		return // in the cycle, of which this is the dry run
	}
	// Who has read the list keeps it as it is.
	state.Write(rankingsKey, rankings(append(slices.Clip(written), Written{Plugin: plugin, Rank: rank})))
}

// Read returns what plugins have written in the cycle so far. It must not be changed.
func Read(state fwk.CycleState) []Written {
	data, err := state.Read(rankingsKey)
	if err != nil {
		return nil
	}
	written, _ := data.(rankings)
	return written
}

// rankings is in the state of a cycle in which a plugin has written.
type rankings []Written

const rankingsKey fwk.StateKey = "NodeRankings"

// Clone returns the same: the list does not change.
func (r rankings) Clone() fwk.StateData { return r }

// DryRunState is the state of a dry run: a copy of a cycle's, in which NodeCandidates runs
// all of PreFilter once more and tries nodes.
type DryRunState struct{ fwk.CycleState }

// NewDryRun returns a copy of the state for a dry run.
func NewDryRun(state fwk.CycleState) *DryRunState {
	return &DryRunState{state.Clone()}
}

// ShouldRecordPluginMetrics returns false: the metrics of plugins are about the
// framework's own calls.
func (s *DryRunState) ShouldRecordPluginMetrics() bool { return false }

// Clone returns a copy for the dry run with nominated pods.
func (s *DryRunState) Clone() fwk.CycleState { return &DryRunState{s.CycleState.Clone()} }

// IsDryRun reports whether PreFilter is called in a dry run. The plugin's own state of the
// cycle is in it already, and PreFilter must have no effect outside of it.
func IsDryRun(state fwk.CycleState) bool {
	_, ok := state.(*DryRunState)
	return ok
}
