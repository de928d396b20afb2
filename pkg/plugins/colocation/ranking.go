// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// maxRankings is for how many kinds of pods the scores of all nodes are remembered.
const maxRankings = 32

// ranker rates all nodes of a list for a pod, as Filter and Score do one by one. It
// remembers the scores for pods that ask for the same, such as those of one
// Deployment, for as long as no peer and no node changes. Only the goroutine that
// schedules uses it.
type ranker struct {
	topology *topology
	// kept are the last rankings, the one used last first.
	kept []*kept
	// sums are of the node at each position: the scores of all targets by their weights.
	sums []int64
}

// kept is the ranking for targets.
type kept struct {
	targets []target
	version uint64
	ranking candidates.Ranking
}

func newRanker(index *peers.Index) *ranker { return &ranker{topology: newTopology(index)} }

// rank returns what check and score say of each of the nodes. The result is the
// ranker's, and read before the next call.
func (r *ranker) rank(s *preFilterState, nodes []fwk.NodeInfo, lister fwk.NodeInfoLister) *candidates.Ranking {
	r.topology.update(nodes, lister)
	at := slices.IndexFunc(r.kept, func(k *kept) bool { return slices.EqualFunc(k.targets, s.targets, asksForSame) })
	var k *kept
	switch {
	case at >= 0:
		k = r.kept[at]
	case len(r.kept) < maxRankings:
		k, at = &kept{}, len(r.kept)
		r.kept = append(r.kept, k)
	default:
		at = maxRankings - 1
		k = r.kept[at]
	}
	copy(r.kept[1:at+1], r.kept[:at])
	r.kept[0] = k
	if k.version != r.topology.version || !slices.EqualFunc(k.targets, s.targets, isSame) {
		k.targets, k.version = s.targets, r.topology.version
		k.ranking.Scores = slices.Grow(k.ranking.Scores[:0], len(nodes))[:len(nodes)]
		r.fill(k.ranking.Scores, s)
	}
	return &k.ranking
}

// asksForSame reports whether two targets differ at most in where the peers are.
func asksForSame(a, b target) bool {
	return a.service == b.service && a.weight == b.weight && a.first == b.first && a.required.key == b.required.key &&
		slices.EqualFunc(a.levels, b.levels, func(a, b levelPeers) bool { return a.key == b.key })
}

// isSame reports whether two targets are the same, peers included.
func isSame(a, b target) bool { return a.view == b.view && asksForSame(a, b) }

// fill writes what check and score say of each node.
func (r *ranker) fill(scores []int32, s *preFilterState) {
	r.sums = slices.Grow(r.sums[:0], len(scores))[:len(scores)]
	clear(r.sums)
	for i := range s.targets {
		r.add(&s.targets[i])
	}
	scale := max(1, scoreScale*s.weight)
	for i, sum := range r.sums {
		scores[i] = int32(fwk.MaxScore * sum / scale)
	}
	for i := range s.targets {
		if s.targets[i].required.key != "" {
			r.reject(scores, &s.targets[i])
		}
	}
}

// flatLevel is one level of a target: the peers of the node at a position are peers[at[position]].
type flatLevel struct{ at, peers []int32 }

func (r *ranker) level(t *target, l levelPeers) flatLevel {
	c := r.topology.column(l.key)
	return flatLevel{c.at, r.topology.tally(t.service, c, l.peers).peers}
}

// add adds the target's score of each node, by its weight: see target.score.
func (r *ranker) add(t *target) {
	if t.weight == 0 {
		return
	}
	levels, index := make([]flatLevel, 0, len(t.levels)), make([]int, 0, len(t.levels))
	for i, l := range t.levels {
		if l.peers.Len() > 0 {
			levels, index = append(levels, r.level(t, l)), append(index, i)
		}
	}
	for position := range r.sums {
		nearest, within := len(t.levels), 0
		for i := range levels {
			if n := levels[i].peers[levels[i].at[position]]; n > 0 {
				nearest = min(nearest, index[i])
				within += int(n)
			}
		}
		if within > 0 {
			r.sums[position] += t.weight * t.scoreOf(nearest, within)
		}
	}
}

// reject marks the nodes that the target's requirement rejects: see preFilterState.check.
func (r *ranker) reject(scores []int32, t *target) {
	l := r.level(t, t.required)
	for position, number := range l.at {
		if number == 0 || !t.first && l.peers[number] <= 0 {
			scores[position] = candidates.Unfit
		}
	}
}
