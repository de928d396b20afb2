// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// minFeasible and minFeasiblePercent are upstream's minFeasibleNodesToFind and
	// minFeasibleNodesPercentageToFind (pkg/scheduler/schedule_one.go).
	minFeasible        = 100
	minFeasiblePercent = 5
	// filterChunk is how many nodes a goroutine filters before it takes the next
	// ones, and a search for part of the nodes before it asks whether it has enough.
	filterChunk = 64
)

// nodeResult is what the filters said of one node.
type nodeResult struct {
	node   fwk.NodeInfo
	status *fwk.Status
}

// findFeasible returns the nodes that passed the filters, in the order of the
// snapshot from where the last search ended, and what was wrong with the others.
// It follows upstream's findNodesThatFitPod.
func (e *Engine) findFeasible(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod) ([]fwk.NodeInfo, *framework.Diagnosis, error) {
	diagnosis := &framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	all, err := e.snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, nil, err
	}
	narrowed, status, narrowing := fw.RunPreFilterPlugins(ctx, state, pod)
	diagnosis.UnschedulablePlugins = narrowing
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		return nil, diagnosis, nil
	}
	if name := pod.Status.NominatedNodeName; name != "" {
		// Upstream tries it alone first; that also skips the narrowing.
		if node, err := e.snapshot.GetNodeInPlacement(name); err == nil {
			feasible, err := e.filter(ctx, fw, state, pod, []fwk.NodeInfo{node}, diagnosis)
			if err != nil {
				return nil, nil, err
			}
			if len(feasible) > 0 {
				return feasible, diagnosis, nil
			}
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
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing))))
	}
	feasible, err := e.filter(ctx, fw, state, pod, nodes, diagnosis)
	if err != nil {
		return nil, nil, err
	}
	e.nextStart = (e.nextStart + len(feasible) + diagnosis.NodeToStatus.Len()) % len(all)
	return feasible, diagnosis, nil
}

// filter runs the Filter plugins on the nodes, from where the last search ended,
// until as many are found as the profile wants to score. It finds what upstream
// finds with one goroutine, whatever the engine's parallelism.
func (e *Engine) filter(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	wanted := e.wanted(fw, len(nodes))
	if !fw.HasFilterPlugins() {
		feasible := make([]fwk.NodeInfo, wanted)
		for i := range feasible {
			feasible[i] = nodes[(e.nextStart+i)%len(nodes)]
		}
		return feasible, nil
	}
	check := e.checker(ctx, fw, state, pod)
	e.results = slices.Grow(e.results[:0], len(nodes))[:len(nodes)]
	// Part of the nodes is searched for in rounds of as many chunks as there are
	// goroutines; all nodes are one round.
	round := len(nodes)
	if wanted < len(nodes) {
		round = filterChunk * e.parallelism
	}
	feasible := make([]fwk.NodeInfo, 0, wanted)
	for begin := 0; begin < len(nodes); begin += round {
		results := e.results[begin:min(begin+round, len(nodes))]
		e.inParallel(len(results), func(i int) {
			node := nodes[(e.nextStart+begin+i)%len(nodes)]
			results[i] = nodeResult{node: node, status: check(node)}
		})
		for i := range results {
			status := results[i].status
			switch {
			case status.IsSuccess() && len(feasible) == wanted:
				return feasible, nil // one more than wanted ends upstream's search
			case status.IsSuccess():
				feasible = append(feasible, results[i].node)
			case status.IsRejected():
				diagnosis.NodeToStatus.Set(results[i].node.Node().Name, status)
				diagnosis.AddPluginStatus(status)
			default:
				return nil, fmt.Errorf("node %q: %w", results[i].node.Node().Name, status.AsError())
			}
		}
	}
	return feasible, nil
}

// checker returns the function that runs the Filter plugins on one node.
func (e *Engine) checker(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *corev1.Pod) func(fwk.NodeInfo) *fwk.Status {
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

// wanted returns after how many feasible nodes the search ends: upstream's
// numFeasibleNodesToFind, and one if nobody scores.
func (e *Engine) wanted(fw framework.Framework, nodes int) int {
	if !fw.HasScorePlugins() {
		return 1
	}
	if nodes < minFeasible {
		return nodes
	}
	percentage := int(e.percentage)
	if own := fw.PercentageOfNodesToScore(); own != nil {
		percentage = int(*own)
	}
	if percentage == 0 {
		percentage = max(50-nodes/125, minFeasiblePercent)
	}
	return max(nodes*percentage/100, minFeasible)
}

// inParallel calls do for 0 to n-1 from the engine's goroutines, and returns when
// all calls have.
func (e *Engine) inParallel(n int, do func(i int)) {
	var next atomic.Int64
	work := func() {
		for {
			end := int(next.Add(filterChunk))
			if end-filterChunk >= n {
				return
			}
			for i := end - filterChunk; i < min(end, n); i++ {
				do(i)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(e.parallelism, (n+filterChunk-1)/filterChunk) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
