// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Reserve chooses the devices by the strategy, and assumes them for the pod until
// it is seen bound.
func (pl *GPUDevice) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	pl.snapshotChanged(state, nodeName)
	if !device.HasShareRequest(pod) {
		return nil // before the state is read, which PreFilter may have left out
	}
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	request := s.podRequest.Request
	if request.Kind != device.RequestShares {
		return nil
	}
	nodeInfo, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserving devices of node %q: %w", nodeName, err))
	}
	if state.IsPodGroupSchedulingCycle() && pl.allocations.startup.lateBinding.Load() {
		return fwk.AsStatus(errOldSnapshot) // viewToReserve would miss that pod
	}
	v := pl.viewToReserve(state, nodeInfo, pod.UID)
	// Nominated pods do not count here, since they have no devices yet: Filter has seen that the
	// pod fits beside those that it has to leave room for.
	if rejected := v.check(s); rejected != device.Fits {
		return overtaken(state, nodeName, reasonText(rejected, v.node))
	}
	beside := v
	if s.chosen == nil || !s.chosen.areFree(v) {
		beside = pl.besideNominatedPods(v, nodeInfo, pod)
	}
	chosen, ok := pl.chooseDevices(s, beside)
	if !ok {
		chosen, ok = pl.chooseDevices(s, v)
	}
	if !ok {
		return overtaken(state, nodeName, reasonText(v.usage.Lacks(request), v.node))
	}
	if state.IsPodGroupSchedulingCycle() {
		kept := chosen // a copy: what every Reserve has stays off the heap
		s.chosen = &kept
	}
	if err := pl.allocations.assume(pod, nodeName, chosen.allocation, chosen.annotations); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
		logger.Info("Reserved devices", "node", klog.KRef("", nodeName), "devices", chosen.annotations)
	}
	return nil
}

// chosenDevices are devices of a node for a pod.
type chosenDevices struct {
	node        *device.Node
	allocation  *device.Allocation
	annotations map[string]string
}

// chooseDevices chooses devices of the node, and reports whether there are some. A member
// of a pod group that fits gets those with which it was found to fit: the next best ones,
// where something was freed meanwhile, may not leave enough for the members after it.
func (pl *GPUDevice) chooseDevices(s *preFilterState, v *nodeView) (chosenDevices, bool) {
	if s.chosen != nil && s.chosen.areFree(v) {
		return *s.chosen, true
	}
	request := s.podRequest.Request
	input := device.CandidateNode{Usage: &v.usage, CPUMilli: v.cpuFree, MaxNode: s.maxNode, Workload: pl.workload.published.Load().forNode(v.node)}
	assignment, ok := device.Assign(pl.strategy, input, s.podRequest)
	if !ok {
		return chosenDevices{}, false
	}
	return chosenDevices{v.node, device.NewAllocation(request, &assignment, v.node), assignment.Annotations(request, v.node)}, true
}

// areFree reports whether the node is the same and has room for what was chosen.
func (c *chosenDevices) areFree(v *nodeView) bool {
	if c.node != v.node {
		return false
	}
	used, err := c.allocation.On(v.node)
	usage := v.usage
	usage.Add(used)
	return err == nil && usage.Overcommitted() == 0
}

// overtaken is the status for a node that Filter let through in the same cycle and that
// has no room any more: another scheduler has bound a pod there meanwhile. It is an
// error, so that the pod is tried again after its back-off: as one that fits nowhere it
// would wait for an event, although other nodes may be free. In the cycle of a pod
// group it is a rejection, as for any member that finds no room: an error there would
// end the attempt for all members.
func overtaken(state fwk.CycleState, node, reason string) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
	return fwk.AsStatus(fmt.Errorf("node %q was chosen and has no room any more, the pod is tried again: %s", node, reason))
}

// snapshotChanged makes the view of the node worthless in the cycle of a pod group, where
// the member was put into the snapshot before Reserve and is taken out after Unreserve. It
// may change what is free without asking for shares.
func (pl *GPUDevice) snapshotChanged(state fwk.CycleState, nodeName string) {
	if !state.IsPodGroupSchedulingCycle() {
		return
	}
	if cell := pl.nodes.get(nodeName); cell != nil {
		pl.allocations.raiseRevision(nodeName, cell.state)
	}
}

// Unreserve takes that back. Called again, or for a pod for which none were assumed
// nothing, it does nothing.
func (pl *GPUDevice) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	pl.allocations.forgetPod(pod.UID)
	pl.snapshotChanged(state, nodeName)
}
