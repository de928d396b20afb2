// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candidates shows a plugin's best nodes to kube-scheduler in a cluster of
// which it looks at a part only.
//
// Above 100 nodes the scheduler stops looking as soon as it has found a part of them
// on which the pod fits (percentageOfNodesToScore): of 5,000 nodes it sees 500. A
// plugin that knows by itself which nodes are best ranks them, and a Finder narrows
// the cycle to the best that fit. A PreFilterResult leaves out the other nodes for
// good, which a preference must not do: so nodes are offered only after one of them
// has passed the filters of all plugins in a dry run, and the pod is sure to fit.
//
// This is the only package of a plugin that calls the framework back. It relies on
// more than fwk.Handle tells of: RunPreFilterPlugins, and PercentageOfNodesToScore of
// the profile.
package candidates

import (
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"
)

const (
	// MinNodes is the number of nodes up to which the scheduler looks at all of them
	// anyway (schedule_one.go, minFeasibleNodesToFind).
	MinNodes = 100
	// MaxOffered is how many nodes the framework is offered. The other plugins choose
	// among those.
	MaxOffered = 32
	// maxMissed bounds the memory of pods that wait for an attempt with all nodes.
	maxMissed = 1024
)

// Finder narrows scheduling cycles. Only the goroutine that schedules calls it.
type Finder interface {
	// Find returns a result that narrows the cycle to some of the ranked nodes, one of
	// which the pod is sure to fit on; nil where all nodes are to be looked at as for
	// every pod, because none of ranked fits, or because the profile, the pod or an
	// extender leaves nothing to narrow. PreFilter calls it last, when its plugin's own
	// state is written.
	//
	// ranked yields batches of nodes, the best first, also within the batch; of a batch
	// the nodes from the first that fits on are offered, MaxOffered at most. A batch is
	// computed when the one before it has no node that fits, and none if nothing can be
	// narrowed.
	Find(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, ranked iter.Seq[[]fwk.NodeInfo]) *fwk.PreFilterResult

	// Missed reports whether an attempt that failed was narrowed by Find. Then the pod
	// is tried again at once with all nodes, and PostFilter must not go on: preemption
	// would evict pods for one that may fit on a node that nobody has looked at. It
	// happens if another pod was nominated for the node in between, or if a plugin
	// decides differently when it is asked a second time.
	Missed(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) bool
}

// NewFinder returns the Finder of one plugin of a profile.
func NewFinder(handle fwk.Handle) Finder {
	return &finder{handle: handle, missed: lru.New(maxMissed)}
}

type finder struct {
	handle fwk.Handle
	// missed are the pods, by UID, whose next attempt is to look at all nodes.
	missed *lru.Cache
}

// narrowed is in the state of a cycle that was narrowed.
type narrowed struct{}

const narrowedKey fwk.StateKey = "PreFilterCandidates"

// Clone returns the same: there is nothing in it.
func (n narrowed) Clone() fwk.StateData { return n }

// Find implements Finder.
func (f *finder) Find(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, ranked iter.Seq[[]fwk.NodeInfo]) *fwk.PreFilterResult {
	if !f.mayNarrow(state, pod, nodes) {
		return nil
	}
	run := f.newDryRun(ctx, state, pod)
	if run == nil || run.allowed != nil && len(run.allowed) <= MinNodes {
		return nil // in the second case all that are left are looked at
	}
	for batch := range ranked {
		first := slices.IndexFunc(batch, func(node fwk.NodeInfo) bool { return run.fits(ctx, node) })
		if first < 0 {
			continue
		}
		names := sets.New[string]()
		for _, node := range batch[first:min(len(batch), first+MaxOffered)] {
			names.Insert(node.Node().Name)
		}
		state.Write(narrowedKey, narrowed{})
		return &fwk.PreFilterResult{NodeNames: names}
	}
	return nil
}

// mayNarrow reports whether the pod may be offered some nodes instead of all.
func (f *finder) mayNarrow(state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) bool {
	switch {
	case len(nodes) <= MinNodes, f.seesAllNodes():
		return false
	case pod.Status.NominatedNodeName != "":
		// That node is tried before what is offered.
		return false
	case state.IsPodGroupSchedulingCycle():
		// The framework looks at a part of the nodes that it does not tell of.
		return false
	}
	if _, missed := f.missed.Get(pod.UID); missed {
		f.missed.Remove(pod.UID)
		return false
	}
	// A dry run does not ask an extender (a request over the network for each node),
	// and one that filters could refuse all that is offered.
	return !slices.ContainsFunc(f.handle.Extenders(), func(e fwk.Extender) bool { return e.IsFilter() && e.IsInterested(pod) })
}

// seesAllNodes reports whether the profile sets percentageOfNodesToScore to 100: then
// the framework looks at all nodes as it is, and a preference stays one. What the
// configuration sets for all profiles, a plugin is not told.
func (f *finder) seesAllNodes() bool {
	profile, ok := f.handle.(interface{ PercentageOfNodesToScore() *int32 })
	if !ok {
		return false
	}
	percentage := profile.PercentageOfNodesToScore()
	return percentage != nil && *percentage >= 100
}

// Missed implements Finder.
func (f *finder) Missed(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) bool {
	if _, err := state.Read(narrowedKey); err != nil {
		return false
	}
	f.missed.Add(pod.UID, nil)
	f.handle.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{klog.KObj(pod).String(): pod})
	return true
}

// dryRun tries nodes before the framework does.
type dryRun struct {
	handle fwk.Handle
	pod    *corev1.Pod
	state  *DryRunState
	// allowed are the nodes that other plugins' PreFilter leaves; nil for all.
	allowed sets.Set[string]
}

// newDryRun prepares all plugins for a dry run, and returns nil if that cannot be.
//
// What a Filter needs, PreFilter has prepared, and which plugins have no Filter to
// run for this pod, the framework tells none of them before all of PreFilter is
// done. So PreFilter of all plugins runs once more, in a copy of the state, within
// the caller's.
func (f *finder) newDryRun(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *dryRun {
	framework, ok := f.handle.(interface {
		RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	})
	if !ok {
		return nil
	}
	run := &dryRun{handle: f.handle, pod: pod, state: NewDryRun(state)}
	result, status, _ := framework.RunPreFilterPlugins(ctx, run.state, pod)
	if !status.IsSuccess() {
		return nil // the attempt is going to fail
	}
	if !result.AllNodes() {
		run.allowed = result.NodeNames
	}
	return run
}

// fits reports whether the pod passes the filters of all plugins on the node.
func (d *dryRun) fits(ctx context.Context, node fwk.NodeInfo) bool {
	return (d.allowed == nil || d.allowed.Has(node.Node().Name)) &&
		d.handle.RunFilterPluginsWithNominatedPods(ctx, d.state, d.pod, node).IsSuccess()
}
