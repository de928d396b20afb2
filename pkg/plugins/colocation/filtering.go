// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filter refuses a node without a peer where one is required, and one that has as
// many of the pod's like as a rule allows. It takes no lock and allocates nothing
// for a node that passes.
//
// The Status is a fresh one, because the framework writes to it, for several nodes
// at once. Every call counts in the metric, those of preemption's simulations too.
func (pl *Colocation) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := readCycleState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	why, i := s.check(nodeInfo)
	if why == nodeFits {
		return nil
	}
	pl.counters.rejections[why].Inc()
	s.rejected.Store(true)
	switch why {
	case nodeCrowded:
		return fwk.NewStatus(fwk.Unschedulable, s.limits[i].reason())
	case nodeUnlabelled:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.terms[i].noLabel)
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.terms[i].noPeer)
	}
}

// check returns why the node is refused, and the index of the term or, for
// nodeCrowded, of the limit that refuses it.
//
// Where no peer is, evicting pods makes none. That a node has too many of the
// pod's like can be helped by evicting one.
func (s *cycleState) check(nodeInfo fwk.NodeInfo) (nodeRejection, int) {
	labels := nodeInfo.Node().Labels
	for i := range s.terms {
		key := s.terms[i].required.key
		if key == "" {
			continue
		}
		value, ok := labels[key]
		switch {
		case !ok:
			return nodeUnlabelled, i
		case !s.terms[i].first && s.within(i, value) <= 0:
			return nodeWithoutPeer, i
		}
	}
	for i := range s.limits {
		if s.limits[i].full(nodeInfo, s.namespace) {
			return nodeCrowded, i
		}
	}
	return nodeFits, 0
}

// full reports whether the node has as many pods of the namespace as the limit
// allows. Pods that are terminating leave soon, and do not count: a rolling update
// could otherwise not replace them.
func (l *limit) full(nodeInfo fwk.NodeInfo, namespace string) bool {
	count := 0
	for _, podInfo := range nodeInfo.GetPods() {
		pod := podInfo.GetPod()
		if !l.counts(pod, namespace) {
			continue
		}
		if count++; count >= l.pods {
			return true
		}
	}
	return false
}

// counts reports whether the pod is one of those that the limit is about.
func (l *limit) counts(pod *corev1.Pod, namespace string) bool {
	return pod.Namespace == namespace && pod.DeletionTimestamp == nil && selects(l.selector, pod.Labels)
}

// reason is what the user reads of a node that is full.
func (l *limit) reason() string {
	return fmt.Sprintf("node(s) already had the %d pod(s) that %s rules[%d].maxPerNode allows", l.pods, Name, l.rule)
}

// PostFilter is told of every attempt that failed. It takes note of what the plugin
// has refused the pod for, or that it has not, so that only what may help wakes the
// pod.
//
// And it is the safety net of the search: if no node was left although one was
// sure to fit, the pod is tried again at once, and then all nodes are looked at.
// That happens if another pod was nominated for the node in between, or if a
// plugin decides differently when it is asked a second time. It never makes a pod
// schedulable itself.
//
// Its answer then ends PostFilter: preemption behind it would evict pods for one
// that may fit on a node that nobody has looked at.
func (pl *Colocation) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s := optionalCycleState(state)
	switch {
	case s == nil || !s.rejected.Load():
		pl.instance.pending.accept(pod.UID)
	case len(s.terms) > 0 || len(s.limits) > 0:
		pl.recordRefusal(ctx, &refusal{pl: pl, pod: pod, request: s.request, understood: true, required: s.required})
	}
	if s != nil && s.offered {
		pl.counters.searches[searchMistaken].Inc()
		pl.retryUnoffered(ctx, pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
