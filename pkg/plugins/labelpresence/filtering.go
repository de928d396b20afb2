// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// preFilterStateKey is where PreFilter leaves its result for Filter.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// preFilterState is what PreFilter found out about the pod.
type preFilterState struct {
	constraints
}

// Clone returns the state itself. It is never written after PreFilter, and it
// does not depend on the pods of a node, which the simulations of preemption
// add and remove.
func (s *preFilterState) Clone() fwk.StateData {
	return s
}

// PreFilter finds out which rules apply to the pod and which tenant owns its
// namespace. It does not narrow the set of nodes: nominated and hinted nodes
// pass by a PreFilterResult, so Filter has to look at every node anyway.
func (pl *LabelPresence) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	var facts namespaceFacts
	if selected.needsNamespace {
		if err := plugin.WaitForSync(ctx, pl.namespaces.synced); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("waiting for the first list of namespaces: %w", err))
		}
		var known bool
		if facts, known = pl.namespaces.index.get(pod.Namespace); !known {
			// Nothing is let through on a guess. The namespace exists, because the
			// pod does; the event that it arrives with wakes the pod. Evicting
			// pods would not help.
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unknownNamespaceReason(pod.Namespace))
		}
	}
	c := pl.policy.constrain(selected, facts)
	if c.none() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, &preFilterState{constraints: c})
	return nil, nil
}

// unknownNamespaceReason names the namespace, whose name cannot contain a
// percent sign.
func unknownNamespaceReason(namespace string) string {
	return fmt.Sprintf("namespace %q is not known to the scheduler yet, and LabelPresence needs its labels", namespace)
}

// PreFilterExtensions returns nil: the state does not depend on the pods of a
// node.
func (pl *LabelPresence) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// Filter rejects a node that breaks tenancy or a rule.
//
// The rejection is unresolvable: evicting pods changes no label and no taint. The Status is a
// fresh one, because the framework writes to it, for several nodes at once.
// Every call counts in the metric, those of preemption's simulations too.
func (pl *LabelPresence) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := plugin.ReadState[*preFilterState](state, preFilterStateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	rejected := s.reject(nodeInfo.Node())
	if rejected == nil {
		return nil
	}
	rejected.counter.Inc()
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, rejected.reason)
}
