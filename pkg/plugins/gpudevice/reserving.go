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

// Reserve chooses the devices by the strategy, and promises them to the pod until
// it is seen bound.
func (pl *GPUDevice) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s, err := readPreFilterState(state)
	if err != nil {
		if !asksForShares(pod) {
			return nil // PreFilter skipped it
		}
		return fwk.AsStatus(err)
	}
	request := s.demand.Request
	if request.Form != device.FormShares {
		return nil
	}
	nodeInfo, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserving devices of node %q: %w", nodeName, err))
	}
	v := pl.viewWithout(nodeInfo, pod.UID)
	// The nominated pods that Filter minded are not here: they have not got the
	// devices yet, and this pod is not of lower priority.
	if rejected := v.check(s); rejected != verdictFits {
		return fwk.NewStatus(fwk.Unschedulable, rejected.reason(v.node))
	}
	site := device.Site{State: &v.state, CPUMilli: v.cpuFree, Scale: s.scale, Expected: pl.workload.current.Load().on(v.node)}
	assignment, ok := pl.policy.Assign(site, s.demand)
	if !ok {
		return fwk.NewStatus(fwk.Unschedulable, v.lacking(request).reason(v.node))
	}
	annotations := assignment.Annotations(request, v.node)
	if !pl.ledger.reserve(pod, nodeName, &assignment, request, annotations) {
		return fwk.NewStatus(fwk.Unschedulable, reasonNotPending)
	}
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
		logger.Info("Reserved devices", "node", klog.KRef("", nodeName), "devices", annotations)
	}
	return nil
}

// Unreserve takes the promise back. Called again, or for a pod that was promised
// nothing, it does nothing.
func (pl *GPUDevice) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	pl.ledger.unreserve(pod.UID)
}
