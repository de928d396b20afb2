// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// searchFrom is the number of nodes up to which the scheduler looks at all of
	// them anyway (schedule_one.go, minFeasibleNodesToFind): nothing is to be found
	// that it would not see.
	searchFrom = 100
	// maxOffered is how many nodes the framework is offered. Other plugins choose
	// among those that are equally near.
	maxOffered = 64
	// maxTried is how many nodes are tried in each of the two parts of the search.
	maxTried = 64
	// maxVisited is of how many nodes with a peer of one Service the search takes
	// note. Where there are more, a sample of all nodes has some of them.
	maxVisited = 512
)

// search returns the nodes nearest to the pod's peers if the pod fits on one of
// them, and nil otherwise: then the framework looks at all nodes as it does for
// every pod.
//
// Above 100 nodes the scheduler stops looking as soon as it has found a part of
// them on which the pod fits; of 5,000 nodes it sees 500, and of the nodes with a
// peer one in ten. To look at all costs more than all else (a PreFilterResult
// narrows, but what it leaves out is refused for good, which a preference must not
// do). So the nodes that are nearest by the index are tried first, by the filters
// of all plugins. When one passes, the pod is sure to have a node among those that
// are not nearer, and the framework needs to see no other.
//
// What it costs does not depend on the number of pods, and grows with the number
// of nodes only where no node with a peer has room.
func (pl *Colocation) search(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, s *cycleState, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	switch {
	case len(s.terms) == 0, len(nodes) <= searchFrom:
		return nil
	case !pl.policy.peersFirst && !s.requiresNode():
		return nil
	case pod.Status.NominatedNodeName != "":
		// That node is tried before what is offered.
		return nil
	case state.IsPodGroupSchedulingCycle():
		// The framework looks at a part of the nodes that it does not tell of.
		return nil
	case pl.instance.warnings.doubted(pod.UID):
		return nil
	}
	pl.offset++
	t := &trial{pl: pl, pod: pod, cycle: s, state: &trialState{CycleState: state, skip: sets.New[string]()}, tried: sets.New[string]()}
	result := searchBeside
	offer := t.offer(ctx, pl.beside(s))
	if offer == nil {
		result = searchNear
		offer = t.offer(ctx, pl.near(s, nodes, t.tried))
	}
	if offer == nil {
		pl.counters.searches[searchNone].Inc()
		return nil
	}
	pl.counters.searches[result].Inc()
	klog.FromContext(ctx).V(4).Info("Found nodes near the pod's peers", "result", result.String(), "nodes", len(offer), "tried", t.tried.Len())
	return &fwk.PreFilterResult{NodeNames: offer}
}

// requiresNode reports whether a term requires a peer on the node itself.
func (s *cycleState) requiresNode() bool {
	return slices.ContainsFunc(s.terms, func(t term) bool { return t.required.key == corev1.LabelHostname })
}

// candidate is a node that may be offered, and its score.
type candidate struct {
	node  fwk.NodeInfo
	score int64
}

// beside returns the nodes that have a peer of a term to which the node itself is
// a level, the nearest first. Equally near ones begin at another one each time.
func (pl *Colocation) beside(s *cycleState) []candidate {
	lister := pl.handle.SnapshotSharedLister().NodeInfos()
	seen := sets.New[string]()
	var found []candidate
	for i := range s.terms {
		t := &s.terms[i]
		if t.required.key != corev1.LabelHostname && !slices.ContainsFunc(t.prefer, func(l levelView) bool { return l.key == corev1.LabelHostname }) {
			continue
		}
		visited := 0
		t.view.Nodes(func(name string, _ int) bool {
			if visited++; visited > maxVisited {
				return false
			}
			if seen.Has(name) {
				return true
			}
			seen.Insert(name)
			if node, err := lister.Get(name); err == nil {
				found = append(found, candidate{node, s.rawScore(node.Node().Labels)})
			}
			return true
		})
	}
	rotate(found, pl.offset)
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	return found
}

// near returns the nodes that score best among those not in except, the best
// first, and none that scores nothing.
func (pl *Colocation) near(s *cycleState, nodes []fwk.NodeInfo, except sets.Set[string]) []candidate {
	best := make([]candidate, 0, maxOffered)
	lowest := 0
	bound := s.bestArea()
	reached := 0
	for i := range nodes {
		node := nodes[(pl.offset*maxOffered+i)%len(nodes)]
		score := s.rawScore(node.Node().Labels)
		switch {
		case score == 0 || except.Has(node.Node().Name):
			continue
		case len(best) < maxOffered:
			best = append(best, candidate{node, score})
		case score > best[lowest].score:
			best[lowest] = candidate{node, score}
		default:
			continue
		}
		if score >= bound {
			if reached++; reached == maxOffered {
				break // no other node is better
			}
		}
		if len(best) == maxOffered {
			lowest = 0
			for k := range best {
				if best[k].score < best[lowest].score {
					lowest = k
				}
			}
		}
	}
	slices.SortStableFunc(best, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	return best
}

// bestArea returns a score that no node can exceed.
func (s *cycleState) bestArea() int64 {
	var sum int64
	for i := range s.terms {
		t := &s.terms[i]
		levels := int64(len(t.prefer))
		step := scoreScale / levels
		nearest, within := levels, int64(0)
		for k := range t.prefer {
			most, visited := 0, 0
			t.prefer[k].peers.All(func(_ string, peers int) bool {
				most = max(most, peers)
				visited++
				return visited <= maxVisited
			})
			if visited > maxVisited {
				most = t.view.Total()
			}
			if most > 0 {
				nearest = min(nearest, int64(k))
				within += int64(most)
			}
		}
		if nearest < levels {
			sum += t.weight * (step*(levels-nearest-1) + min(step, max(1, step*within/(levels*int64(t.view.Total())))))
		}
	}
	return sum
}

// rotate moves the first n candidates, by the length of the list, to its end.
func rotate(found []candidate, n int) {
	if len(found) == 0 {
		return
	}
	n %= len(found)
	slices.Reverse(found[:n])
	slices.Reverse(found[n:])
	slices.Reverse(found)
}

// trial tries nodes before the framework does.
type trial struct {
	pl    *Colocation
	pod   *corev1.Pod
	cycle *cycleState
	state *trialState
	tried sets.Set[string]
}

// offer returns the names of the candidates from the first one that passes all
// filters on, or nil if none of those that are tried does.
func (t *trial) offer(ctx context.Context, candidates []candidate) sets.Set[string] {
	left := maxTried
	for i := range candidates {
		node := candidates[i].node
		if why, _ := t.cycle.check(node); why != nodeFits {
			continue
		}
		if left--; left < 0 {
			return nil
		}
		t.tried.Insert(node.Node().Name)
		if !t.passes(ctx, node) {
			continue
		}
		names := sets.New[string]()
		for _, c := range candidates[i:min(len(candidates), i+maxOffered)] {
			names.Insert(c.node.Node().Name)
		}
		return names
	}
	return nil
}

// passes reports whether the filters of all plugins let the node pass.
//
// The framework knows which plugins' PreFilter said Skip, and tells Filter, but
// not before all of PreFilter is done. A plugin that skipped has left no state, so
// that its Filter fails with an error; then it is left out, and the rest asked
// again. A plugin that fails for another reason would end the attempt in Filter
// too. A node that passes here and is refused by the framework makes the pod fail
// once: see PostFilter.
func (t *trial) passes(ctx context.Context, node fwk.NodeInfo) bool {
	for {
		status := t.pl.handle.RunFilterPluginsWithNominatedPods(ctx, t.state, t.pod, node)
		if status.Code() != fwk.Error {
			return status.IsSuccess()
		}
		plugin := status.Plugin()
		if plugin == "" || plugin == Name || t.state.skip.Has(plugin) {
			return false
		}
		t.state.skip.Insert(plugin)
	}
}

// trialState is the state of the cycle with the plugins that skip it as far as the
// trial has found out.
type trialState struct {
	fwk.CycleState
	skip sets.Set[string]
}

// GetSkipFilterPlugins returns the plugins that are left out.
func (s *trialState) GetSkipFilterPlugins() sets.Set[string] { return s.skip }

// ShouldRecordPluginMetrics returns false: the metrics are about the framework's
// own calls.
func (s *trialState) ShouldRecordPluginMetrics() bool { return false }

// Clone returns a copy for the simulation of nominated pods.
func (s *trialState) Clone() fwk.CycleState {
	return &trialState{CycleState: s.CycleState.Clone(), skip: s.skip}
}

// retryUnoffered sends the pod back to the active queue, without a search the next
// time.
func (pl *Colocation) retryUnoffered(ctx context.Context, pod *corev1.Pod) {
	pl.instance.warnings.doubt(pod.UID)
	pl.handle.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{klog.KObj(pod).String(): pod})
}
