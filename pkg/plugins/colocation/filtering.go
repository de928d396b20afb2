// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// preFilterStateKey is where PreFilter leaves its result for all that follows.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// preFilterState is what PreFilter found out about the pod.
type preFilterState struct {
	// targets do not change after PreFilter; clones share them.
	targets []target
	// weight is the sum of the targets'.
	weight int64
	// filters is whether Filter can reject a node.
	filters bool
	// rejection is what the pod is rejected for if Filter rejects nodes, and rejected
	// whether it has been recorded. All clones share it.
	rejection *rejection
	rejected  *atomic.Bool
	// changes are by what a dry run differs from the views. They are the only thing
	// that is written after PreFilter, and only in clones.
	changes []change
}

// change is that a pod is a peer of a target on a node where the view does not count
// it (by 1), or is not one where the view does (by -1).
type change struct {
	target int
	pod    types.UID
	node   *corev1.Node
	by     int
}

// Clone returns a copy with changes of its own: the framework clones the state for
// each dry run of preemption and of nominated pods, and changes the clone.
func (s *preFilterState) Clone() fwk.StateData {
	clone := *s
	clone.changes = slices.Clone(s.changes)
	return &clone
}

func newPreFilterState(targets []target) *preFilterState {
	s := &preFilterState{targets: targets, rejected: &atomic.Bool{}}
	for i := range targets {
		s.weight += targets[i].weight
		s.filters = s.filters || targets[i].required.key != ""
	}
	return s
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return plugin.ReadState[*preFilterState](state, preFilterStateKey)
}

// getPreFilterStateOrNil returns the state, or nil if PreFilter has left none because
// the pod asks for nothing.
func getPreFilterStateOrNil(state fwk.CycleState) *preFilterState {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil // without the text of an error, which plain pods would pay for
	}
	s, _ := data.(*preFilterState)
	return s
}

// PreFilter finds out what the pod asks for and where the peers are, rejects what
// cannot be given, and leaves how near each node is to the peers for NodeCandidates.
//
// Its rejections are unresolvable: evicting pods neither corrects an annotation nor
// makes a peer.
func (pl *Colocation) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if candidates.IsDryRun(state) {
		// What there is to be found out is in the state.
		s := getPreFilterStateOrNil(state)
		if s == nil {
			candidates.Write(state, Name, nil)
		}
		if s == nil || !s.filters {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		return nil, nil
	}
	r, err := pl.requestOf(pod)
	if err == nil && len(r.terms) == 0 {
		pl.instance.waiting.remove(pod.UID) // what it may have asked for before
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.instance.waiting.attempt(pod, pl.namespaceVersion(pod), r, err)
	pl.instance.forgetIfGone(pod)
	if err != nil {
		// Nothing is let through on a guess. A namespace that is not known exists,
		// because the pod does; when it arrives, the pod is woken.
		why := rejectedMalformed
		if _, unknown := errors.AsType[errUnknownNamespace](err); unknown {
			why = rejectedUnknownNamespace
		}
		return nil, pl.rejectPod(ctx, why, err.Error(), &rejection{pl: pl, pod: pod, malformed: why == rejectedMalformed})
	}
	if err := plugin.WaitForSync(ctx, pl.instance.synced...); err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("waiting for the first list of what is behind Services: %w", err))
	}
	found := lookUp(pl.instance.index, pod, &r)
	s := newPreFilterState(found.targets)
	s.rejection = &rejection{pl: pl, pod: pod, rules: r.rules, understood: true, required: found.required}
	switch {
	case len(found.emptyRequirements) > 0:
		return nil, pl.rejectPod(ctx, rejectedNoTopologyKey, fmt.Sprintf("no node has the label %s, by which the pod must be near a Service: correct the key, or label the nodes",
			list(found.emptyRequirements)), s.rejection)
	case len(found.waits) > 0:
		return nil, pl.rejectPod(ctx, rejectedWaiting, "waiting for a Service that the pod must be near: "+join(found.waits, maxWaits, "; "), s.rejection)
	}
	pl.warn(ctx, pod, &found)
	if len(s.targets) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, s)
	candidates.Write(state, Name, func() *candidates.Ranking {
		return pl.ranker.rank(s, nodes, pl.handle.SnapshotSharedLister().NodeInfos())
	})
	if !s.filters {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// rejectPod rejects the pod on all nodes, counts it, and records what may help.
func (pl *Colocation) rejectPod(ctx context.Context, why outcome, reason string, r *rejection) *fwk.Status {
	pl.counters[why].Inc()
	pl.instance.recordRejection(klog.FromContext(ctx), r)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, messages.Escape(reason))
}

const (
	// maxListed bounds the text of an event.
	maxListed = 6
	// maxWaits is how much of what a pod waits for is said at once: each is a sentence.
	maxWaits = 3
)

// list names things in a sentence, as many as it has room for.
func list(things []string) string { return join(things, maxListed, ", ") }

// join is list with other separators.
func join(things []string, most int, separator string) string {
	if more := len(things) - most; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(things[:most], separator), separator, more)
	}
	return strings.Join(things, separator)
}

// PreFilterExtensions returns the plugin: whether a requirement is met depends on
// the pods that the dry runs of preemption add and remove.
func (pl *Colocation) PreFilterExtensions() fwk.PreFilterExtensions {
	return pl
}

// AddPod takes note that a dry run adds a pod to a node.
func (pl *Colocation) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	return pl.updateWithPod(state, added.GetPod(), nodeInfo.Node(), 1)
}

// RemovePod takes note that a dry run removes a pod from a node.
func (pl *Colocation) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	return pl.updateWithPod(state, removed.GetPod(), nodeInfo.Node(), -1)
}

// updateWithPod lets the pod be on the node, or no longer be, in this dry run: by 1 or -1.
// The pods of a snapshot are not quite those of the view: one that the view no longer
// counts takes nothing away when it is removed, and one that it counts already adds
// nothing. Only a requirement looks at it, so other targets are left out.
func (pl *Colocation) updateWithPod(state fwk.CycleState, pod *corev1.Pod, node *corev1.Node, by int) *fwk.Status {
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	for i := range s.targets {
		if s.targets[i].required.key == "" || !s.targets[i].view.IsPeer(pod) {
			continue
		}
		before := slices.IndexFunc(s.changes, func(c change) bool {
			return c.target == i && c.pod == pod.UID && c.node.Name == node.Name && c.by == -by
		})
		counted := pl.instance.index.NodeOf(pod.UID) == node.Name
		switch {
		case before >= 0:
			s.changes = slices.Delete(s.changes, before, before+1)
		case counted == (by < 0):
			s.changes = append(s.changes, change{target: i, pod: pod.UID, node: node, by: by})
		}
	}
	return nil
}

// Filter rejects a node without a peer where one is required: evicting pods makes
// none. It takes no lock and allocates nothing for a node that passes.
//
// The first node that it rejects in an attempt has it record what may help the pod,
// because not every attempt that fails gets to a PostFilter; Reserve, where another
// node fits, ends that. What preemption's dry runs take away is no such rejection.
//
// The Status is a fresh one, because the framework writes to it, for several nodes
// at once. Every call counts in the metric, those of preemption's dry runs too.
func (pl *Colocation) Filter(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	why, i := s.check(nodeInfo.Node().Labels)
	if why == nodeFits {
		return nil
	}
	pl.counters[why].Inc()
	if !slices.ContainsFunc(s.changes, func(c change) bool { return c.by < 0 }) && s.rejected.CompareAndSwap(false, true) {
		pl.instance.recordRejection(klog.FromContext(ctx), s.rejection)
	}
	reason := s.targets[i].noPeer
	if why == nodeUnlabeled {
		reason = s.targets[i].noLabel
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// check returns why a node with these labels is rejected, and the index of the target
// that rejects it.
func (s *preFilterState) check(labels map[string]string) (outcome, int) {
	for i := range s.targets {
		t := &s.targets[i]
		if t.required.key == "" {
			continue
		}
		value, ok := labels[t.required.key]
		if !ok {
			return nodeUnlabeled, i
		}
		if t.first {
			continue
		}
		peers := t.required.peers.Within(value)
		for _, c := range s.changes {
			if c.target == i && c.node.Labels[t.required.key] == value {
				peers += c.by
			}
		}
		if peers <= 0 {
			return nodeWithoutPeer, i
		}
	}
	return nodeFits, 0
}
