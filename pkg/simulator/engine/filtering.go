// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// filterChunk is how many nodes a goroutine filters before it takes the next ones, and a
// search for part of the nodes before it asks whether it has enough.
const filterChunk = 64

// nodeResult is what the filters said of a node.
type nodeResult struct {
	node   fwk.NodeInfo
	status *fwk.Status
}

// search is one search for feasible nodes. What is wrong with the others is put
// into the form of a diagnosis only if there is none: a map of a thousand nodes for
// every pod costs more than most filters.
type search struct {
	feasible []fwk.NodeInfo
	rejected []nodeResult
	// elsewhere is the status of the nodes that were not looked at.
	elsewhere *fwk.Status
	// prefilter is what PreFilter said if it refused the pod.
	prefilter *fwk.Status
	// narrowing are the plugins whose PreFilter narrowed the set of nodes.
	narrowing sets.Set[string]
}

// evaluated returns how many nodes were looked at.
func (s *search) evaluated() int { return len(s.feasible) + len(s.rejected) }

// diagnosis says what is wrong with every node.
func (s *search) diagnosis() framework.Diagnosis {
	d := framework.Diagnosis{
		NodeToStatus:         framework.NewNodeToStatus(make(map[string]*fwk.Status, len(s.rejected)), s.elsewhere),
		UnschedulablePlugins: s.narrowing,
	}
	if s.prefilter != nil {
		d.PreFilterMsg = s.prefilter.Message()
		d.AddPluginStatus(s.prefilter)
	}
	for i := range s.rejected {
		d.NodeToStatus.Set(s.rejected[i].node.Node().Name, s.rejected[i].status)
		d.AddPluginStatus(s.rejected[i].status)
	}
	return d
}

// findNodesThatFitPod looks for the nodes that pass the filters, in the order of
// the snapshot from where the last search ended. It follows upstream's function of
// that name.
func (e *Engine) findNodesThatFitPod(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod) (*search, error) {
	all, err := e.snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, err
	}
	narrowed, status, narrowing := fw.RunPreFilterPlugins(ctx, state, pod)
	s := &search{narrowing: narrowing, elsewhere: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		s.prefilter, s.elsewhere = status, status
		return s, nil
	}
	s.rejected = e.rejected[:0]
	if name := pod.Status.NominatedNodeName; name != "" {
		// Upstream tries it alone first; that also skips the narrowing.
		if node, err := e.snapshot.GetNodeInPlacement(name); err == nil {
			if err := e.findNodesThatPassFilters(ctx, fw, state, pod, []fwk.NodeInfo{node}, s); err != nil {
				return nil, err
			}
			if len(s.feasible) > 0 {
				return s, nil
			}
			s.rejected = s.rejected[:0] // it is looked at again
		}
	}
	nodes := all
	if !narrowed.AllNodes() {
		nodes = make([]fwk.NodeInfo, 0, len(narrowed.NodeNames))
		for _, name := range sets.List(narrowed.NodeNames) {
			if node, err := e.snapshot.GetNodeInPlacement(name); err == nil {
				nodes = append(nodes, node)
			}
		}
		s.elsewhere = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing)))
	}
	if err := e.findNodesThatPassFilters(ctx, fw, state, pod, nodes, s); err != nil {
		return nil, err
	}
	e.nextStart = (e.nextStart + s.evaluated()) % len(all)
	e.rejected = s.rejected
	return s, nil
}

// findNodesThatPassFilters runs the Filter plugins on the nodes, from where the
// last search ended, until as many are found as the profile wants to score. It finds
// what upstream finds with one goroutine, whatever the engine's parallelism.
func (e *Engine) findNodesThatPassFilters(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, s *search) error {
	if len(nodes) == 0 {
		return nil
	}
	wanted, err := e.numFeasibleNodesToFind(ctx, fw, nodes)
	if err != nil {
		return err
	}
	s.feasible = make([]fwk.NodeInfo, 0, wanted)
	if !fw.HasFilterPlugins() {
		for i := range wanted {
			s.feasible = append(s.feasible, nodes[(e.nextStart+i)%len(nodes)])
		}
		return nil
	}
	runFilters := e.filterFunc(ctx, fw, state, pod)
	e.statuses = slices.Grow(e.statuses[:0], len(nodes))[:len(nodes)]
	// Part of the nodes is searched for in rounds of as many chunks as there are
	// goroutines; all nodes are one round.
	round := len(nodes)
	if wanted < len(nodes) {
		round = filterChunk * e.parallelism
	}
	for begin := 0; begin < len(nodes); begin += round {
		statuses := e.statuses[begin:min(begin+round, len(nodes))]
		at := func(i int) fwk.NodeInfo { return nodes[(e.nextStart+begin+i)%len(nodes)] }
		workqueue.ParallelizeUntil(ctx, e.parallelism, len(statuses), func(i int) { statuses[i] = runFilters(at(i)) }, workqueue.WithChunkSize(filterChunk))
		if err := ctx.Err(); err != nil {
			return err // some nodes were left out
		}
		for i, status := range statuses {
			switch {
			case status.IsSuccess() && len(s.feasible) == wanted:
				return nil // one more than wanted ends upstream's search
			case status.IsSuccess():
				s.feasible = append(s.feasible, at(i))
			case status.IsRejected():
				s.rejected = append(s.rejected, nodeResult{node: at(i), status: status})
			default:
				return fmt.Errorf("node %q: %w", at(i).Node().Name, status.AsError())
			}
		}
	}
	return nil
}

// filterFunc returns the function that runs the Filter plugins on one node.
func (e *Engine) filterFunc(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod) func(fwk.NodeInfo) *fwk.Status {
	if !klog.FromContext(ctx).V(4).Enabled() {
		// Asking a logger is a good part of what a cheap filter costs.
		ctx = klog.NewContext(ctx, logr.Discard())
	}
	if e.nominator.empty() {
		// What the other function does when no pod is nominated for the node.
		return func(node fwk.NodeInfo) *fwk.Status { return fw.RunFilterPlugins(ctx, state, pod, node) }
	}
	return func(node fwk.NodeInfo) *fwk.Status {
		return fw.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	}
}

// numFeasibleNodesToFind returns after how many feasible nodes a search of these ends. The
// scheduler does not export the number: it is how many nodes its own search finds where
// each is feasible.
func (e *Engine) numFeasibleNodesToFind(ctx context.Context, fw framework.Framework, nodes []fwk.NodeInfo) (int, error) {
	key := sampleKey{fw.ProfileName(), len(nodes)}
	if size, ok := e.sampleSizes[key]; ok {
		return size, nil
	}
	all := sets.New[string]()
	for _, node := range nodes {
		all.Insert(node.Node().Name)
	}
	pod := &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: &corev1.Pod{}}}
	found, err := e.cycle.upstreamSearch(ctx, allFeasible{fw, all}, framework.NewCycleState(), pod)
	e.sampleSizes[key] = found.FeasibleNodes
	return found.FeasibleNodes, err
}

// sampleKey is what the sample size depends on.
type sampleKey struct {
	profile string
	nodes   int
}

// allFeasible is a profile to which each of the nodes is feasible, and all are alike.
type allFeasible struct {
	framework.Framework

	nodes sets.Set[string]
}

// RunPreFilterPlugins narrows the search to the nodes.
func (f allFeasible) RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return &fwk.PreFilterResult{NodeNames: f.nodes}, nil, nil
}

// HasFilterPlugins returns false.
func (allFeasible) HasFilterPlugins() bool { return false }

// RunPreScorePlugins runs none.
func (allFeasible) RunPreScorePlugins(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

// RunScorePlugins runs none.
func (allFeasible) RunScorePlugins(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	return make([]fwk.NodePluginScores, len(nodes)), nil
}

// GetNodeHint returns none.
func (allFeasible) GetNodeHint(context.Context, *corev1.Pod, fwk.PodSignature, fwk.CycleState, int64) string {
	return ""
}

// StoreScheduleResults does nothing.
func (allFeasible) StoreScheduleResults(context.Context, fwk.PodSignature, string, string, framework.SortedScoredNodes, int64) {
}
