// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/visible"
)

// PreFilter offers the framework the nodes that can win, one of which the pod is sure to
// fit on. It returns Skip where all nodes are to be looked at as without it: if no plugin
// ranks nodes for the pod, if none of those that they let pass fits, and if there is
// nothing to leave out.
func (pl *NodeCandidates) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if candidates.IsDryRun(state) {
		return nil, fwk.NewStatus(fwk.Skip) // this is our own
	}
	written := candidates.Read(state)
	if !slices.ContainsFunc(written, func(w candidates.Written) bool { return w.Rank != nil }) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if pl.profile.load.Do(pl.loadProfile); pl.profile.err != nil {
		return nil, fwk.AsStatus(pl.profile.err)
	}
	if !pl.mayNarrow(state, pod, nodes) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	offered := pl.offer(ctx, state, pod, nodes, written)
	if offered == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(narrowedKey, narrowed{})
	klog.FromContext(ctx).V(4).Info("Narrowed the cycle to the nodes that can win", "nodes", len(offered), "of", len(nodes))
	return &fwk.PreFilterResult{NodeNames: offered}, nil
}

// mayNarrow reports whether the pod may be offered some nodes instead of all.
func (pl *NodeCandidates) mayNarrow(state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	switch {
	case len(nodes) <= minNodes, pl.profile.percentage >= 100:
		return false // all are looked at anyway, or the profile wants them to be
	case pod.Status.NominatedNodeName != "":
		// That node is tried before what is offered.
		return false
	case state.IsPodGroupSchedulingCycle():
		// The framework looks at a part of the nodes that it does not tell of.
		return false
	}
	if _, missed := pl.missed.Get(pod.UID); missed {
		pl.missed.Remove(pod.UID)
		return false
	}
	// A dry run does not ask an extender (a request over the network for each node), and
	// one that filters could refuse all that is offered. How much one that scores can
	// lift a node is not known.
	return !slices.ContainsFunc(pl.handle.Extenders(), func(e fwk.Extender) bool {
		return (e.IsFilter() || e.IsPrioritizer()) && e.IsInterested(pod)
	})
}

// offer returns the names of the nodes that are offered, or nil for all nodes.
func (pl *NodeCandidates) offer(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, written []candidates.Written) sets.Set[string] {
	f := &pl.nodes
	f.reset(len(nodes))
	for _, w := range written {
		f.add(w, pl.profile.weights[w.Plugin])
	}
	if !f.anyFits() {
		return nil // the framework says why
	}
	run := pl.newDryRun(ctx, state, pod)
	if run == nil || run.allowed != nil && len(run.allowed) <= minNodes {
		return nil // in the second case all that are left are looked at
	}
	for _, w := range candidates.Read(run.state)[len(written):] {
		f.add(w, pl.profile.weights[w.Plugin])
	}
	f.others = fwk.MaxScore * (pl.profile.total - f.known)
	// Those that tenancy keeps from the pod are not tried at all.
	sees := visible.Read(state)
	allowed := func(i int) bool { return run.allows(nodes[i]) && sees(nodes[i].Node()) }
	best := f.best(pl.offset, allowed, func(i int) bool { return run.fits(ctx, nodes[i]) })
	if best < 0 {
		pl.counters[foundNone].Inc()
		return nil
	}
	winners, leftOut := f.winners(best, pl.offset, allowed)
	if !leftOut && len(winners) > minNodes {
		// The other plugins decide among all that fit, and the framework would look at
		// fewer of them.
		pl.counters[foundAll].Inc()
		return nil
	}
	pl.counters[foundCandidates].Inc()
	if most := pl.profile.maxOffered(len(nodes)); len(winners) > most {
		winners = f.bestOf(winners, most)
		pl.offset = int(winners[most-1]) + 1
	}
	names := make(sets.Set[string], len(winners))
	for _, i := range winners {
		names.Insert(nodes[i].Node().Name)
	}
	return names
}
