// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreFilter finds out what the pod asks for and where the peers are, refuses what
// cannot be given, and offers the framework the nodes nearest to the peers.
//
// Its refusals are unresolvable: evicting pods neither corrects an annotation nor
// makes a peer.
func (pl *Colocation) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if t, ok := state.(*trialState); ok {
		return nil, t.enter()
	}
	r, err := pl.requestOf(pod)
	if err == nil && r.none() {
		pl.instance.forget(pod.UID) // what it may have asked for before
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.instance.pending.attempt(pod, pl.namespaceVersion(pod), r, err)
	pl.instance.forgetIfGone(pod)
	if err != nil {
		// Nothing is let through on a guess. A namespace that is not known exists,
		// because the pod does; when it arrives, the pod is woken.
		why := refusalMalformed
		if _, unknown := errors.AsType[errUnknownNamespace](err); unknown {
			why = refusalUnknownNamespace
		}
		return nil, pl.refusePod(ctx, state, why, err.Error(), &refusal{pod: pod, malformed: why == refusalMalformed})
	}
	if err := pl.instance.waitForSync(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	found := lookUp(pl.instance.index, pod, &r)
	switch refused := (&refusal{pod: pod, request: r, understood: true, required: found.required}); {
	case len(found.emptyRequirements) > 0:
		return nil, pl.refusePod(ctx, state, refusalNoTopologyKey, fmt.Sprintf("no node has the label %s, within which a pod of a Service is required: correct the key, or label the nodes",
			list(found.emptyRequirements)), refused)
	case len(found.waits) > 0:
		return nil, pl.refusePod(ctx, state, refusalWaiting, "waiting for a Service that the pod requires to be near: "+join(found.waits, maxWaits, "; "), refused)
	}
	pl.warn(ctx, pod, &found)

	s := newCycleState(pod, &r, &found)
	if len(s.terms) == 0 && !s.filters {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(cycleStateKey, s)
	offer := pl.search(ctx, state, pod, s, nodes)
	if offer == nil && !s.filters {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s.offered = offer != nil
	return offer, nil
}

// enter is this plugin's PreFilter within its own: what there is to be found out
// is known.
func (s *trialState) enter() *fwk.Status {
	if !s.cycle.filters {
		return fwk.NewStatus(fwk.Skip)
	}
	s.Write(cycleStateKey, s.cycle)
	return nil
}

// PreFilterExtensions returns the plugin: whether a requirement is met depends on
// the pods that the simulations of preemption add and remove.
func (pl *Colocation) PreFilterExtensions() fwk.PreFilterExtensions {
	return pl
}

// AddPod takes note that a simulation adds a pod to a node.
func (pl *Colocation) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	return pl.changeBy(state, added, nodeInfo, 1)
}

// RemovePod takes note that a simulation removes a pod from a node.
func (pl *Colocation) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	return pl.changeBy(state, removed, nodeInfo, -1)
}

func (pl *Colocation) changeBy(state fwk.CycleState, pod fwk.PodInfo, nodeInfo fwk.NodeInfo, by int) *fwk.Status {
	s, err := readCycleState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.apply(pod.GetPod(), nodeInfo.Node(), by, pl.instance.index.PlaceOf)
	return nil
}

// refusePod refuses the pod on all nodes, counts it, and takes note of what may help.
func (pl *Colocation) refusePod(ctx context.Context, state fwk.CycleState, why podRefusal, reason string, r *refusal) *fwk.Status {
	pl.counters.refusals[why].Inc()
	// PostFilter, which hears of the failed attempt, is told that it was this plugin.
	s := &cycleState{rejected: &atomic.Bool{}}
	s.rejected.Store(true)
	state.Write(cycleStateKey, s)
	r.pl = pl
	pl.recordRefusal(ctx, r)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, escape(reason))
}

// maxListed bounds the text of an event.
const maxListed = 6

// list names things in a sentence, as many as it has room for.
func list(things []string) string { return join(things, maxListed, ", ") }

// maxWaits is how much of what a pod waits for is said at once: each is a sentence.
const maxWaits = 3

// join is list with other separators.
func join(things []string, most int, separator string) string {
	if more := len(things) - most; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(things[:most], separator), separator, more)
	}
	return strings.Join(things, separator)
}

// escape makes a text safe for the scheduler, which uses reasons as a format
// string. A percent sign can only come from a value, and those are quoted: there
// this escape is what Go would write for it.
func escape(text string) string {
	return strings.ReplaceAll(text, "%", `\x25`)
}
