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

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

const (
	// maxTried is how many nodes are in a batch that is tried.
	maxTried = 64
	// maxVisited is of how many nodes with a peer of one Service the search takes
	// note. Where there are more, a sample of all nodes has some of them.
	maxVisited = 256
	// maxRated bounds how many levels of nodes the search rates in each batch: ten
	// Services with two levels each in 5,000 nodes.
	maxRated = 100_000
)

// findNearest returns the nodes nearest to the pod's peers if the pod fits on one of
// them, and nil otherwise: then the framework looks at all nodes as it does for
// every pod (candidates.Finder).
//
// What it costs does not depend on the number of pods, and grows with the number
// of nodes only where no node with a peer has room.
func (pl *Colocation) findNearest(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, s *preFilterState, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	requiresNode := false
	for i := range s.targets {
		requiresNode = requiresNode || s.targets[i].required.key == corev1.LabelHostname && !s.targets[i].first
	}
	if s.weight == 0 || !pl.policy.peersFirst && !requiresNode {
		return nil
	}
	n := &nearest{
		check: s.check, lister: pl.handle.SnapshotSharedLister().NodeInfos(), nodes: nodes, onNodeOnly: requiresNode,
		targets: heaviest(s.targets, len(nodes)), offset: pl.offset,
	}
	pl.offset++
	offered := pl.candidates.Find(ctx, state, pod, nodes, n.ranked)
	if n.result != notSearched {
		pl.counters[n.result].Inc()
	}
	if offered != nil {
		klog.FromContext(ctx).V(4).Info("Found nodes near the pod's peers", "result", n.result, "nodes", len(offered.NodeNames))
	}
	return offered
}

// hasNodeLevel reports whether the node itself is a level of the target.
func (t *target) hasNodeLevel() bool {
	return t.required.key == corev1.LabelHostname ||
		slices.ContainsFunc(t.levels, func(l levelPeers) bool { return l.key == corev1.LabelHostname })
}

// heaviest returns no more targets than the search can rate so many nodes for: those
// that require a peer on the node, and then those of most weight. How many Services a
// pod names is up to its author, and the scheduler places one pod at a time. Filter
// and Score go by all targets.
func heaviest(targets []target, nodes int) []target {
	levels := 0
	for i := range targets {
		levels += len(targets[i].levels)
	}
	if nodes*levels <= maxRated {
		return targets
	}
	targets = slices.Clone(targets)
	slices.SortStableFunc(targets, func(a, b target) int {
		if onNode := a.required.key == corev1.LabelHostname; onNode != (b.required.key == corev1.LabelHostname) {
			if onNode {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.weight, a.weight)
	})
	levels = 0
	for i := range targets {
		if levels += len(targets[i].levels); i > 0 && nodes*levels > maxRated {
			return targets[:i]
		}
	}
	return targets
}

// nearest ranks nodes by how near they are to the peers of the targets.
type nearest struct {
	targets []target
	// check is preFilterState.check.
	check  func(labels map[string]string) (outcome, int)
	lister fwk.NodeInfoLister
	nodes  []fwk.NodeInfo
	// onNodeOnly is whether no node without a peer will do.
	onNodeOnly bool
	// offset is where the search among equally near nodes begins.
	offset int
	// result is which nodes were yielded last; foundNone if all were in vain.
	result outcome
}

// ranked yields the nodes that have a peer themselves, and then those that are near
// one: see candidates.Finder.
func (n *nearest) ranked(yield func([]fwk.NodeInfo) bool) {
	n.result = foundOnPeer
	onPeer := n.onPeerNodes()
	if !yield(n.passing(onPeer)) {
		return
	}
	if len(onPeer) == maxTried {
		// The best are full; there may be more with a peer.
		tried := sets.New[string]()
		for _, r := range onPeer {
			tried.Insert(r.node.Node().Name)
		}
		if !yield(n.passing(n.best(func(node string) bool { return !tried.Has(node) && n.hasPeer(node) }))) {
			return
		}
	}
	if !n.onNodeOnly {
		n.result = foundNear
		if !yield(n.passing(n.best(func(node string) bool { return !n.hasPeer(node) }))) {
			return
		}
	}
	n.result = foundNone
}

// passing returns the nodes that the plugin's own Filter does not reject.
func (n *nearest) passing(rated []ratedNode) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(rated))
	for _, r := range rated {
		if why, _ := n.check(r.node.Node().Labels); why == nodeFits {
			nodes = append(nodes, r.node)
		}
	}
	return nodes
}

// onPeerNodes returns the nodes that have a peer of a target to which the node itself
// is a level, the nearest first. Equally near ones come in another order each time, and
// where a Service has peers on more nodes than are visited, so does the visit.
func (n *nearest) onPeerNodes() []ratedNode {
	best := n.newRanking()
	seen := sets.New[string]()
	for i := range n.targets {
		t := &n.targets[i]
		if !t.hasNodeLevel() {
			continue
		}
		for name := range t.view.Nodes().Sample(maxVisited, n.offset) {
			if seen.Has(name) {
				continue
			}
			seen.Insert(name)
			node, err := n.lister.Get(name)
			if err != nil {
				continue // the index knows a node that this cycle does not
			}
			if best.add(ratedNode{node, rawScore(n.targets, node.Node().Labels)}) {
				return best.sorted()
			}
		}
	}
	return best.sorted()
}

// best returns those of the nodes that score best, the best first, and none that
// scores nothing or that is not wanted.
func (n *nearest) best(wanted func(node string) bool) []ratedNode {
	best := n.newRanking()
	for i := range n.nodes {
		node := n.nodes[(n.offset*candidates.MaxOffered+i)%len(n.nodes)]
		score := rawScore(n.targets, node.Node().Labels)
		if score == 0 || !best.takes(score) || !wanted(node.Node().Name) {
			continue
		}
		if best.add(ratedNode{node, score}) {
			break
		}
	}
	return best.sorted()
}

// hasPeer reports whether the node has a peer of a target to which the node itself is
// a level.
func (n *nearest) hasPeer(node string) bool {
	for i := range n.targets {
		if t := &n.targets[i]; t.hasNodeLevel() && t.view.Nodes().Within(node) > 0 {
			return true
		}
	}
	return false
}

// newRanking returns a ranking with a raw score that no node exceeds.
func (n *nearest) newRanking() *ranking {
	r := &ranking{best: make([]ratedNode, 0, maxTried)}
	for i := range n.targets {
		t := &n.targets[i]
		if t.weight == 0 {
			continue
		}
		nearest, within := len(t.levels), 0
		for k := range t.levels {
			most := 0
			if t.levels[k].peers.Len() > maxVisited {
				most = t.view.Total()
			} else {
				for _, peers := range t.levels[k].peers.All {
					most = max(most, peers)
				}
			}
			if most > 0 {
				nearest = min(nearest, k)
				within += most
			}
		}
		r.bound += t.weight * t.scoreOf(nearest, within)
	}
	return r
}

// ratedNode is a node and its raw score.
type ratedNode struct {
	node  fwk.NodeInfo
	score int64
}

// ranking keeps the maxTried best nodes of those that it is shown; of equal ones,
// those that come first.
type ranking struct {
	best []ratedNode
	// lowest is the index of the worst of best, if that is full.
	lowest int
	// bound is a score that none exceeds, and reached how many have it.
	bound   int64
	reached int
}

// takes reports whether a node with the score would be kept.
func (r *ranking) takes(score int64) bool {
	return len(r.best) < maxTried || score > r.best[r.lowest].score
}

// add shows it a node, and reports whether no other can be better than what it keeps.
func (r *ranking) add(node ratedNode) bool {
	switch {
	case !r.takes(node.score):
		return false
	case len(r.best) < maxTried:
		r.best = append(r.best, node)
	default:
		r.best[r.lowest] = node
	}
	if node.score >= r.bound {
		r.reached++
	}
	if len(r.best) == maxTried {
		r.lowest = 0
		for i := range r.best {
			if r.best[i].score < r.best[r.lowest].score {
				r.lowest = i
			}
		}
	}
	return r.reached == maxTried
}

// sorted returns what it keeps, the best first.
func (r *ranking) sorted() []ratedNode {
	slices.SortStableFunc(r.best, func(a, b ratedNode) int { return cmp.Compare(b.score, a.score) })
	return r.best
}
