// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// rankings remember what Filter and Score say of all nodes, for each kind of pod that came
// lately, so that a cycle looks only at the nodes that changed since the last pod of that
// kind: as a rule those where pods were placed in between. They hold for one list of the
// snapshot, which makes a new one when nodes come or go. Only the scheduling goroutine uses
// them.
//
// What a node's view depends on (nodeView) tells which changed: its generation, which is
// compared for all nodes in every cycle, one word each; its revision, by the list of those
// that were raised; and that of the published slices, which is one for all nodes.
type rankings struct {
	// first and count tell a list of the snapshot from others.
	first *fwk.NodeInfo
	count int
	// generations are those of the nodes when they were last compared, and positions where
	// the nodes are in the list.
	generations []int64
	positions   map[string]int32
	// revisions is how many revisions of the allocation cache are in changes already, and
	// slices the revision of the published slices.
	revisions, slices uint64

	// views are those of the nodes, nil where a node changed since: to find a view by the
	// name of its node costs as much as to score it.
	views []*nodeView
	// changes are the positions of nodes that changed, and last, for each, how many changes
	// there were with its last one.
	changes changeLog[int32]
	last    []uint64

	ranked map[rankedKind]*rankedNodes
	// uses counts the calls of rank.
	uses uint64
}

// rankedKind is what tells pods apart between which Filter or Score may. The rest of what a
// score depends on is the same for all pods of a cycle.
type rankedKind struct {
	request device.RequestKey
	cpu     int64
}

// rankedNodes is what Filter and Score say of all nodes for one kind of pod.
type rankedNodes struct {
	candidates.Ranking
	// key is the number of what the scores depend on beside the nodes (scoreKeys), and seen
	// how many changes they are up to date with.
	key, seen uint64
	// used is when they were used last.
	used uint64
}

// maxRanked bounds the memory: 4 bytes for each node and kind of pod, 15 MB with 15,000
// nodes.
const maxRanked = 256

// rank returns what Filter and Score say of all nodes. It is valid until the next cycle.
func (pl *GPUDevice) rank(filtered *preFilterState, nodes []fwk.NodeInfo) *candidates.Ranking {
	r := &pl.rankings
	r.update(pl, nodes)
	s := pl.preScoreStateOf(filtered)
	ranked := r.of(s)
	view := func(i int32) *nodeView {
		if r.views[i] == nil {
			r.views[i] = pl.view(nodes[i], false)
		}
		return r.views[i]
	}
	evaluate := func(i int32) {
		v := view(i)
		ranked.Scores[i] = candidates.Unfit
		if v.check(filtered) == device.Fits {
			ranked.Scores[i] = int32(pl.score(s, v)) //nolint:gosec // 28 bits
		}
	}
	changes, all := r.changes.since(ranked.seen)
	if !all || ranked.key == 0 {
		for i := range ranked.Scores {
			evaluate(int32(i)) //nolint:gosec // a number of nodes
		}
	} else {
		for k, i := range changes {
			if r.last[i] == ranked.seen+uint64(k)+1 { //nolint:gosec // not negative
				evaluate(i) // once, where it changed several times
			}
		}
		if ranked.key != s.key {
			// Filter reads nothing of what scores depend on beside the nodes.
			for i, score := range ranked.Scores {
				if score != candidates.Unfit {
					ranked.Scores[i] = int32(pl.score(s, view(int32(i)))) //nolint:gosec // 28 bits
				}
			}
		}
	}
	ranked.key, ranked.seen, ranked.Ordinal = s.key, r.changes.end(), s.ranked
	return &ranked.Ranking
}

// update puts the nodes that changed since the last call into r.changes, or forgets all if
// they are other nodes or it is not known which have changed.
func (r *rankings) update(pl *GPUDevice, nodes []fwk.NodeInfo) {
	// Read before anything that they cover.
	slicesNow := pl.publishedSlices.revision.Load()
	raised, revisions, all := pl.allocations.nodesChangedSince(r.revisions)
	if !all || r.slices != slicesNow || r.count != len(nodes) || r.count > 0 && r.first != &nodes[0] {
		r.reset(nodes)
	}
	r.revisions, r.slices = revisions, slicesNow
	for i := range nodes {
		if generation := nodes[i].GetGeneration(); generation != r.generations[i] {
			r.generations[i] = generation
			r.changed(int32(i)) //nolint:gosec // a number of nodes
		}
	}
	for _, name := range raised {
		if i, ok := r.positions[name]; ok {
			r.changed(i)
		}
	}
}

// changed adds a node to r.changes, which has at most two for each node: then to look at all
// nodes costs no more.
func (r *rankings) changed(i int32) {
	r.views[i] = nil
	r.changes.add(i, 2*r.count)
	r.last[i] = r.changes.end()
}

// reset begins anew with a list of nodes.
func (r *rankings) reset(nodes []fwk.NodeInfo) {
	*r = rankings{
		count: len(nodes), generations: make([]int64, len(nodes)), positions: make(map[string]int32, len(nodes)),
		views: make([]*nodeView, len(nodes)), last: make([]uint64, len(nodes)), ranked: map[rankedKind]*rankedNodes{}, uses: r.uses,
	}
	if len(nodes) > 0 {
		r.first = &nodes[0]
	}
	for i := range nodes {
		r.generations[i] = nodes[i].GetGeneration()
		r.positions[nodes[i].Node().Name] = int32(i) //nolint:gosec // a number of nodes
	}
}

// of returns what is remembered for the kind of pod; if there is nothing, what has to be
// evaluated for all nodes.
func (r *rankings) of(s *preScoreState) *rankedNodes {
	kind := rankedKind{request: s.request, cpu: s.podRequest.CPUMilli}
	ranked := r.ranked[kind]
	if ranked == nil {
		scores := r.removeOldest()
		if scores == nil {
			scores = make([]int32, r.count)
		}
		ranked = &rankedNodes{Ranking: candidates.Ranking{Scores: scores}} // no key is 0
		r.ranked[kind] = ranked
	}
	r.uses++
	ranked.used = r.uses
	return ranked
}

// removeOldest forgets the kind of pod that came least lately if there are as many as may
// be, and returns its scores to be used again.
func (r *rankings) removeOldest() []int32 {
	if len(r.ranked) < maxRanked {
		return nil
	}
	var oldest rankedKind
	var found *rankedNodes
	for kind, ranked := range r.ranked {
		if found == nil || ranked.used < found.used {
			oldest, found = kind, ranked
		}
	}
	delete(r.ranked, oldest)
	return slices.Clip(found.Scores)
}
