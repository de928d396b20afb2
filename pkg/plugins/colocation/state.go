// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// cycleStateKey is where PreFilter leaves its result for all that follows.
const cycleStateKey fwk.StateKey = "PreFilter" + Name

// cycleState is what PreFilter found out about the pod.
type cycleState struct {
	// namespace is the pod's.
	namespace string
	// terms and limits do not change after PreFilter; clones share them.
	terms  []term
	limits []limit
	// weight is the sum of the terms'.
	weight int64
	// filters is whether Filter can refuse a node.
	filters bool
	// request and required are what a refusal is for. required is that of all Services.
	request  request
	required []requirement
	// rejected is whether PreFilter has refused the pod, or Filter a node. It is shared
	// by all clones.
	rejected *atomic.Bool
	// offered is whether the framework looks at some nodes only, because one of
	// them is sure to fit.
	offered bool
	// changes are by what a simulation differs from the views. They are the only
	// thing that is written after PreFilter, and only in clones.
	changes []change
}

// change is that a pod is a peer of a term on a node where the view does not count
// it (by 1), or is not one where the view does (by -1).
type change struct {
	term int
	pod  types.UID
	node *corev1.Node
	by   int
}

// Clone returns a copy with changes of its own: the framework clones the state for
// each simulation of preemption and of nominated pods, and changes the clone.
func (s *cycleState) Clone() fwk.StateData {
	clone := *s
	clone.changes = slices.Clone(s.changes)
	return &clone
}

func newCycleState(pod *corev1.Pod, r *request, found *lookup) *cycleState {
	s := &cycleState{
		namespace: pod.Namespace, terms: found.terms, limits: r.limits, filters: len(r.limits) > 0,
		request: *r, required: found.required, rejected: &atomic.Bool{},
	}
	terms := found.terms
	for i := range terms {
		s.weight += terms[i].weight
		s.filters = s.filters || terms[i].required.key != ""
	}
	return s
}

func readCycleState(state fwk.CycleState) (*cycleState, error) {
	data, err := state.Read(cycleStateKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from cycleState: %w", cycleStateKey, err)
	}
	s, ok := data.(*cycleState)
	if !ok {
		return nil, fmt.Errorf("reading %q from cycleState: want %T, got %T", cycleStateKey, s, data)
	}
	return s, nil
}

// optionalCycleState returns the state, or nil if PreFilter has left none because the
// pod asks for nothing.
func optionalCycleState(state fwk.CycleState) *cycleState {
	data, err := state.Read(cycleStateKey)
	if err != nil {
		return nil // without the text of an error, which plain pods would pay for
	}
	s, _ := data.(*cycleState)
	return s
}

// within returns how many peers of a term are where the value of its required
// level is the given one, in this simulation.
func (s *cycleState) within(i int, value string) int {
	t := &s.terms[i]
	n := t.required.peers.Within(value)
	for _, c := range s.changes {
		if c.term == i && c.node.Labels[t.required.key] == value {
			n += c.by
		}
	}
	return n
}

// apply lets the pod be on the node, or no longer be, in this simulation: by 1 or -1.
// countsOn is where the index counts the pod. The pods of a snapshot are not quite
// those of the view: one that the view no longer counts takes nothing away when it is
// removed, and one that it counts already adds nothing. Only a requirement looks at
// it, so other terms are left out.
func (s *cycleState) apply(pod *corev1.Pod, node *corev1.Node, by int, countsOn func(types.UID) string) {
	for i := range s.terms {
		if s.terms[i].required.key == "" || !s.terms[i].view.IsPeer(pod) {
			continue
		}
		before := slices.IndexFunc(s.changes, func(c change) bool {
			return c.term == i && c.pod == pod.UID && c.node.Name == node.Name && c.by == -by
		})
		counted := countsOn(pod.UID) == node.Name
		switch {
		case before >= 0:
			s.changes = slices.Delete(s.changes, before, before+1)
		case counted == (by < 0):
			s.changes = append(s.changes, change{term: i, pod: pod.UID, node: node, by: by})
		}
	}
}

// score rates a node with these labels for all terms, 0 to fwk.MaxScore: the
// average of the terms, by their weights. There must be one that has a weight.
func (s *cycleState) score(labels map[string]string) int64 {
	return fwk.MaxScore * s.rawScore(labels) / (scoreScale * s.weight)
}

// rawScore is score in the finest steps, 0 to scoreScale times the weights.
// Weights are at most 10,000 for each of at most 32 Services of at most 1,001
// wishes, so nothing overflows.
func (s *cycleState) rawScore(labels map[string]string) int64 {
	var sum int64
	for i := range s.terms {
		sum += s.terms[i].weight * s.terms[i].score(labels)
	}
	return sum
}
