// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = candidates.NarrowingPlugin

// maxMissed bounds the memory of pods that wait for an attempt with all nodes.
const maxMissed = 1024

// NodeCandidates is the plugin. See the package comment. Its PreFilter and PostFilter are
// called by the goroutine that schedules, and by no other.
type NodeCandidates struct {
	handle  fwk.Handle
	profile profile
	// missed are the pods, by UID, whose next attempt is to look at all nodes.
	missed *lru.Cache
	// offset is the node with which the choice among equal ones begins: the one after those
	// that were offered last, where there were more. So it is not always the same that are
	// offered, as with the scheduler's own nextStartNodeIndex.
	offset   int
	nodes    nodeField
	counters counters
}

var (
	_ fwk.PreFilterPlugin   = &NodeCandidates{}
	_ fwk.PostFilterPlugin  = &NodeCandidates{}
	_ fwk.EnqueueExtensions = &NodeCandidates{}
	_ fwk.SignPlugin        = &NodeCandidates{}
)

// Name returns the name of the plugin.
func (pl *NodeCandidates) Name() string { return Name }

// New builds the plugin, which takes no args: anything but nil is an error.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("%s takes no args, got %T", Name, args)
	}
	registerMetrics()
	return &NodeCandidates{handle: handle, missed: lru.New(maxMissed), counters: newCounters(handle.ProfileName())}, nil
}

// PreFilter offers the framework the nodes that can win. The pod fits on at least one of
// them. It returns Skip if the framework has to consider all nodes: no plugin ranks nodes
// for the pod, the pod fits on none of the ranked nodes, or there is nothing to leave out.
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
	sees := plugin.ReadVisible(state)
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

// PreFilterExtensions returns nil: there is no Filter.
func (pl *NodeCandidates) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter runs after every attempt that failed. One that was narrowed is repeated at
// once with all nodes, and PostFilter ends here: preemption would evict pods for one that
// may fit on a node that was not looked at.
func (pl *NodeCandidates) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := state.Read(narrowedKey); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pl.counters[missedAll].Inc()
	pl.missed.Add(pod.UID, nil)
	pl.handle.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{klog.KObj(pod).String(): pod})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// narrowed is in the state of a cycle that was narrowed.
type narrowed struct{}

const narrowedKey fwk.StateKey = "PreFilter" + Name

// Clone returns the same: there is nothing in it.
func (n narrowed) Clone() fwk.StateData { return n }

// EventsToRegister returns none: a pod that failed because of this plugin is tried again at
// once, by PostFilter.
func (pl *NodeCandidates) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod signs all pods alike: the plugin reads nothing of a pod but what the plugins that
// rank nodes for it have found. These do not sign a pod whose cycle it may narrow
// (candidates.Narrows).
func (pl *NodeCandidates) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
