// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
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
	r, err := pl.noteDown(pod)
	if err != nil {
		return nil, pl.refuseRequest(err)
	}
	if r.none() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := pl.instance.waitForSync(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	found := lookUp(pl.instance.index, pod, &r)
	switch {
	case len(found.emptyRequirements) > 0:
		return nil, pl.refusePod(refusalNoTopologyKey, fmt.Sprintf("no node has the label %s, within which a pod of a Service is required: correct the key, or label the nodes",
			list(found.emptyRequirements)))
	case pl.policy.waits && len(found.waiting) > 0:
		return nil, pl.refusePod(refusalWaiting, waitingReason(found.waiting))
	}
	pl.warn(ctx, pod, &found)

	s := newCycleState(pod, &r, found.terms)
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
	return changeBy(state, added, nodeInfo, 1)
}

// RemovePod takes note that a simulation removes a pod from a node.
func (pl *Colocation) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	return changeBy(state, removed, nodeInfo, -1)
}

func changeBy(state fwk.CycleState, pod fwk.PodInfo, nodeInfo fwk.NodeInfo, by int) *fwk.Status {
	s, err := readCycleState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s.apply(pod.GetPod(), nodeInfo.Node(), by)
	return nil
}

// noteDown returns what the pod asks for, and notes down what can change that or
// what it leads to beside pods and nodes. It does so before anybody reads the
// index: what changes afterwards wakes the pod.
func (pl *Colocation) noteDown(pod *corev1.Pod) (request, error) {
	var keys []waitsFor
	if pl.policy.usesNamespaces {
		keys = []waitsFor{{namespace: pod.Namespace}}
		pl.instance.waiters.set(pod, keys)
	}
	r, err := pl.policy.requestOf(pod, pl.instance.namespaceLabels)
	if _, unknown := errors.AsType[errUnknownNamespace](err); unknown {
		return r, err
	}
	if err != nil || r.none() {
		keys = nil
	}
	for i := range r.wishes {
		if !pl.binds(&r.wishes[i]) {
			continue
		}
		for _, s := range r.wishes[i].services {
			keys = append(keys, waitsFor{s.in(pod.Namespace), s.name})
		}
	}
	pl.instance.waiters.set(pod, keys)
	if len(keys) > 0 {
		pl.instance.forgetIfGone(pod)
	}
	return r, err
}

// refuseRequest refuses a pod whose request cannot be known.
func (pl *Colocation) refuseRequest(err error) *fwk.Status {
	if _, unknown := errors.AsType[errUnknownNamespace](err); unknown {
		// Nothing is let through on a guess. The namespace exists, because the pod
		// does; when it arrives, the pod is woken.
		return pl.refusePod(refusalUnknownNamespace, err.Error())
	}
	return pl.refusePod(refusalMalformed, err.Error())
}

// refusePod refuses the pod on all nodes, and counts it.
func (pl *Colocation) refusePod(why podRefusal, reason string) *fwk.Status {
	pl.counters.refusals[why].Inc()
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, escape(reason))
}

// waitingReason says which Services a pod waits for. It is the same for those that
// do not exist and those that do not let the pod near them.
func waitingReason(services []string) string {
	return fmt.Sprintf("waiting until a pod of Service %s has a node (firstPodPolicy Wait); if that takes long, check the name, the selector and, of another namespace's Service, annotation %s",
		list(services), names.AllowColocationFromAnnotation)
}

// maxListed bounds the text of an event.
const maxListed = 6

// list names things in a sentence, as many as it has room for.
func list(things []string) string {
	if more := len(things) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(things[:maxListed], ", "), more)
	}
	return strings.Join(things, ", ")
}

// escape makes a text safe for the scheduler, which uses reasons as a format
// string. A percent sign can only come from a value, and those are quoted: there
// this escape is what Go would write for it.
func escape(text string) string {
	return strings.ReplaceAll(text, "%", `\x25`)
}
