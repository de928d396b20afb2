// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

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
	// maxTried is how many nodes are tried in each of the two parts of the search.
	maxTried = 64
	// maxOffered is how many nodes the framework is offered. Other plugins choose
	// among those that are equally near; as the search begins elsewhere each time,
	// in the long run they choose among all.
	maxOffered = 32
	// maxVisited is of how many nodes with a peer of one Service the search takes
	// note. Where there are more, a sample of all nodes has some of them.
	maxVisited = 256
	// maxRated bounds how many levels of nodes the search rates in each part: ten
	// Services with two levels each in 5,000 nodes.
	maxRated = 100_000
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
	if !pl.mayOffer(state, pod, s, nodes) {
		return nil
	}
	pl.offset++
	t := pl.newTrial(ctx, state, pod, s)
	if t == nil || t.allowed != nil && len(t.allowed) <= searchFrom {
		return nil // in the second case all that are left are looked at
	}
	offer, result := pl.find(ctx, t, s, nodes)
	pl.counters.searches[result].Inc()
	if offer == nil {
		return nil
	}
	klog.FromContext(ctx).V(4).Info("Found nodes near the pod's peers", "result", result.String(), "nodes", len(offer))
	return &fwk.PreFilterResult{NodeNames: offer}
}

// mayOffer reports whether the pod may be offered some nodes instead of all.
func (pl *Colocation) mayOffer(state fwk.CycleState, pod *corev1.Pod, s *cycleState, nodes []fwk.NodeInfo) bool {
	switch {
	case s.weight == 0, len(nodes) <= searchFrom, pl.seesAllNodes():
		return false
	case !pl.policy.peersFirst && !s.requiresNode():
		return false
	case pod.Status.NominatedNodeName != "":
		// That node is tried before what is offered.
		return false
	case state.IsPodGroupSchedulingCycle():
		// The framework looks at a part of the nodes that it does not tell of.
		return false
	case pl.instance.warnings.doubted(pod.UID):
		return false
	}
	// A trial does not ask an extender (a request over the network for each node),
	// and one that filters could refuse all that is offered.
	return !slices.ContainsFunc(pl.handle.Extenders(), func(e fwk.Extender) bool { return e.IsFilter() && e.IsInterested(pod) })
}

// seesAllNodes reports whether the profile sets percentageOfNodesToScore to 100: then
// the framework looks at all nodes as it is, and a preference stays one. What the
// configuration sets for all profiles, a plugin is not told.
func (pl *Colocation) seesAllNodes() bool {
	profile, ok := pl.handle.(interface{ PercentageOfNodesToScore() *int32 })
	if !ok {
		return false
	}
	percentage := profile.PercentageOfNodesToScore()
	return percentage != nil && *percentage >= 100
}

// find returns the nodes to offer, nil if none of those that are tried fits, and
// which kind of nodes they are.
func (pl *Colocation) find(ctx context.Context, t *trial, s *cycleState, nodes []fwk.NodeInfo) (sets.Set[string], searchResult) {
	rated := s.heaviest(len(nodes))
	beside := pl.beside(rated)
	if offer := t.offer(ctx, beside); offer != nil {
		return offer, searchBeside
	}
	if len(beside) == maxTried {
		// The best are full; there may be more with a peer.
		tried := sets.New[string]()
		for _, c := range beside {
			tried.Insert(c.node.Node().Name)
		}
		more := pl.best(rated, nodes, func(node string) bool { return !tried.Has(node) && rated.besidePeer(node) })
		if offer := t.offer(ctx, more); offer != nil {
			return offer, searchBeside
		}
	}
	if !s.requiresNode() {
		if offer := t.offer(ctx, pl.best(rated, nodes, func(node string) bool { return !rated.besidePeer(node) })); offer != nil {
			return offer, searchNear
		}
	}
	return nil, searchNone
}

// requiresNode reports whether a term requires a peer on the node itself.
func (s *cycleState) requiresNode() bool {
	return slices.ContainsFunc(s.terms, func(t term) bool { return t.required.key == corev1.LabelHostname && !t.first })
}

// beside returns the nodes that have a peer of a term to which the node itself is
// a level, the nearest first. Equally near ones begin at another one each time, and
// where a Service has peers on more nodes than are visited, so does the visit.
func (pl *Colocation) beside(s *cycleState) []candidate {
	var names []string
	seen := sets.New[string]()
	for i := range s.terms {
		t := &s.terms[i]
		if !t.hasNodeLevel() {
			continue
		}
		names = slices.Grow(names, min(maxVisited, t.view.NodeCount()))
		for name := range pl.visited(t) {
			if !seen.Has(name) {
				seen.Insert(name)
				names = append(names, name)
			}
		}
	}
	lister := pl.handle.SnapshotSharedLister().NodeInfos()
	best := newRanking(s.highestScore())
	for i := range names {
		node, err := lister.Get(names[(pl.offset*maxOffered+i)%len(names)])
		if err != nil {
			continue // the index knows a node that this cycle does not
		}
		if best.add(candidate{node, s.rawScore(node.Node().Labels)}) {
			break
		}
	}
	return best.sorted()
}

// visited yields at most maxVisited of the nodes with a peer of the term. Of more,
// it is another run of them in each search: those that it always began with could
// be full.
func (pl *Colocation) visited(t *term) iter.Seq[string] {
	return func(yield func(string) bool) {
		count := t.view.NodeCount()
		first := 0
		if count > maxVisited {
			first = pl.offset * maxVisited % count
		}
		at := 0
		t.view.Nodes(func(name string, _ int) bool {
			// The run may go over the end, and go on at the beginning.
			turn := (at - first + count) % count
			at++
			return turn >= maxVisited || yield(name)
		})
	}
}

// hasNodeLevel reports whether the node itself is a level of the term.
func (t *term) hasNodeLevel() bool {
	return t.required.key == corev1.LabelHostname ||
		slices.ContainsFunc(t.levels, func(l levelView) bool { return l.key == corev1.LabelHostname })
}

// best returns those of the nodes that score best, the best first, and none that
// scores nothing or that is not wanted.
func (pl *Colocation) best(s *cycleState, nodes []fwk.NodeInfo, wanted func(node string) bool) []candidate {
	best := newRanking(s.highestScore())
	for i := range nodes {
		node := nodes[(pl.offset*maxOffered+i)%len(nodes)]
		score := s.rawScore(node.Node().Labels)
		if score == 0 || !best.takes(score) || !wanted(node.Node().Name) {
			continue
		}
		if best.add(candidate{node, score}) {
			break
		}
	}
	return best.sorted()
}

// heaviest returns the state with no more terms than the search can rate so many
// nodes for: those that require a peer on the node, and then those of most weight.
// How many Services a pod names is up to its author, and the scheduler places one
// pod at a time. Filter and Score go by all terms.
func (s *cycleState) heaviest(nodes int) *cycleState {
	levels := 0
	for i := range s.terms {
		levels += len(s.terms[i].levels)
	}
	if nodes*levels <= maxRated {
		return s
	}
	some := *s
	some.terms = slices.Clone(s.terms)
	slices.SortStableFunc(some.terms, func(a, b term) int {
		if onNode := a.required.key == corev1.LabelHostname; onNode != (b.required.key == corev1.LabelHostname) {
			if onNode {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.weight, a.weight)
	})
	levels = 0
	for i := range some.terms {
		if levels += len(some.terms[i].levels); i > 0 && nodes*levels > maxRated {
			some.terms = some.terms[:i]
			break
		}
	}
	return &some
}

// besidePeer reports whether the node has a peer of a term to which the node itself
// is a level.
func (s *cycleState) besidePeer(node string) bool {
	for i := range s.terms {
		if t := &s.terms[i]; t.hasNodeLevel() && t.view.OnNode(node) > 0 {
			return true
		}
	}
	return false
}

// highestScore returns a raw score that no node exceeds.
func (s *cycleState) highestScore() int64 {
	var sum int64
	for i := range s.terms {
		t := &s.terms[i]
		if t.weight == 0 {
			continue
		}
		levels := int64(len(t.levels))
		step := scoreScale / levels
		nearest, within := levels, int64(0)
		for k := range t.levels {
			most, visited := 0, 0
			t.levels[k].peers.All(func(_ string, peers int) bool {
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

// preFilterRunner is the part of the framework that a plugin's handle has beside
// what fwk.Handle tells of.
type preFilterRunner interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// trial tries nodes before the framework does.
type trial struct {
	pl    *Colocation
	pod   *corev1.Pod
	cycle *cycleState
	state *trialState
	// allowed are the nodes that other plugins' PreFilter leaves; nil for all.
	allowed sets.Set[string]
}

// newTrial prepares the plugins for a trial, and returns nil if that cannot be.
//
// What a Filter needs, PreFilter has prepared, and which plugins have no Filter to
// run for this pod, the framework tells none of them before all of PreFilter is
// done. So PreFilter of all plugins runs once more, in a state of its own, within
// this one's; it stops here.
func (pl *Colocation) newTrial(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, s *cycleState) *trial {
	runner, ok := pl.handle.(preFilterRunner)
	if !ok {
		return nil
	}
	t := &trial{pl: pl, pod: pod, cycle: s, state: &trialState{CycleState: state, cycle: s}}
	result, status, _ := runner.RunPreFilterPlugins(ctx, t.state, pod)
	if !status.IsSuccess() {
		return nil // the attempt is going to fail
	}
	if !result.AllNodes() {
		t.allowed = result.NodeNames
	}
	return t
}

// offer returns the names of the candidates from the first one that passes all
// filters on, or nil if none of those that are tried does.
func (t *trial) offer(ctx context.Context, candidates []candidate) sets.Set[string] {
	for i := range candidates {
		node := candidates[i].node
		if t.allowed != nil && !t.allowed.Has(node.Node().Name) {
			continue
		}
		if why, _ := t.cycle.check(node); why != nodeFits {
			continue
		}
		if !t.pl.handle.RunFilterPluginsWithNominatedPods(ctx, t.state, t.pod, node).IsSuccess() {
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

// trialState is the state of a cycle in which nodes are tried. It has the
// plugins' data of its own, and lends the rest from the cycle that it is within.
type trialState struct {
	fwk.CycleState
	// cycle is what this plugin's PreFilter found out in that cycle.
	cycle *cycleState
	data  sync.Map
	skip  sets.Set[string]
}

// Read returns what a plugin wrote, or fwk.ErrNotFound.
func (s *trialState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if value, ok := s.data.Load(key); ok {
		if data, ok := value.(fwk.StateData); ok {
			return data, nil
		}
	}
	return nil, fwk.ErrNotFound
}

// Write keeps what a plugin writes.
func (s *trialState) Write(key fwk.StateKey, data fwk.StateData) { s.data.Store(key, data) }

// Delete drops it.
func (s *trialState) Delete(key fwk.StateKey) { s.data.Delete(key) }

// Clone returns a copy for the simulation of nominated pods.
func (s *trialState) Clone() fwk.CycleState {
	clone := &trialState{CycleState: s.CycleState, cycle: s.cycle, skip: s.skip}
	s.data.Range(func(key, value any) bool {
		if data, ok := value.(fwk.StateData); ok {
			clone.data.Store(key, data.Clone())
		}
		return true
	})
	return clone
}

// GetSkipFilterPlugins returns the plugins whose Filter does not run.
func (s *trialState) GetSkipFilterPlugins() sets.Set[string] { return s.skip }

// SetSkipFilterPlugins is told of them when all of PreFilter is done.
func (s *trialState) SetSkipFilterPlugins(plugins sets.Set[string]) { s.skip = plugins }

// ShouldRecordPluginMetrics returns false: the metrics of plugins are about the
// framework's own calls.
func (s *trialState) ShouldRecordPluginMetrics() bool { return false }

// retryUnoffered sends the pod back to the active queue, without a search the next
// time.
func (pl *Colocation) retryUnoffered(ctx context.Context, pod *corev1.Pod) {
	pl.instance.warnings.doubt(pod.UID)
	pl.instance.forgetIfGone(pod)
	pl.handle.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{klog.KObj(pod).String(): pod})
}
