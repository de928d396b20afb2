// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/visible"
)

// preFilterStateKey is where PreFilter leaves its result for Filter.
const preFilterStateKey fwk.StateKey = "PreFilter" + Name

// preFilterState is what PreFilter found out about the pod.
type preFilterState struct {
	constraints
	// rejection is nil if no change of the pod's namespace can help it. All clones share it.
	rejection *rejectionRecord
}

// rejectionRecord records once that Filter rejected the pod on some node.
type rejectionRecord struct {
	selected selection
	facts    namespaceFacts
	done     atomic.Bool
}

// Clone returns the state itself. It is never written after PreFilter, but for the record, and it
// does not depend on the pods of a node, which the simulations of preemption
// add and remove.
func (s *preFilterState) Clone() fwk.StateData {
	return s
}

// PreFilter finds out which rules apply to the pod and which tenant owns its
// namespace. It does not narrow the set of nodes: nominated and hinted nodes
// pass by a PreFilterResult, so Filter has to look at every node anyway. Other plugins
// read in the state which nodes tenancy keeps from the pod (package visible).
func (pl *LabelPresence) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	var facts namespaceFacts
	if selected.needsNamespace {
		if err := plugin.WaitForSync(ctx, pl.namespaces.synced); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("waiting for the first list of namespaces: %w", err))
		}
		pl.namespaces.rejected.remove(pod.UID) // of the last attempt
		var known bool
		if facts, known = pl.namespaces.index.get(pod.Namespace); !known {
			pl.recordRejection(klog.FromContext(ctx), pod, selected, nil)
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
	s := &preFilterState{constraints: c}
	if selected.needsNamespace {
		s.rejection = &rejectionRecord{selected: selected, facts: facts}
	}
	state.Write(preFilterStateKey, s)
	if c.tenancy != nil {
		visible.Write(state, c.tenancy.visibleTo(c.owner))
	}
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
func (pl *LabelPresence) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := plugin.ReadState[*preFilterState](state, preFilterStateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	rejected := s.reject(nodeInfo.Node())
	if rejected == nil {
		return nil
	}
	rejected.counter.Inc()
	if r := s.rejection; r != nil && !r.done.Load() && r.done.CompareAndSwap(false, true) {
		pl.recordRejection(klog.FromContext(ctx), pod, r.selected, &r.facts)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, rejected.reason)
}
