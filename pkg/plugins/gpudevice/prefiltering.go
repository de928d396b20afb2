// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// PreFilter finds out what the pod asks for, and rejects what can never be allocated.
// It narrows the set of nodes no further: nominated and hinted nodes pass by a
// PreFilterResult, so Filter has to look at every node anyway. To NodeCandidates it
// leaves a ranking of all nodes.
func (pl *GPUDevice) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if candidates.IsDryRun(state) {
		return nil, pl.preFilterDryRun(state, nodes)
	}
	parsed, err := pl.parse(pod)
	switch {
	case err != nil:
		// Nothing but another pod can help. Evicting pods would not.
		return nil, pl.reject(invalidPodReason(err), "the pod can never be scheduled: "+messages.Escape(err.Error()))
	case parsed.skipsFilter() && pl.leavesNonGPUPodsAlone():
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s := &parsed
	status := pl.whyNoShare(s, pod, nodes)
	if status == nil {
		pl.beginCycle(s, pod, nodes)
		status = pl.whyNeverFits(s.podRequest.Request, nodes, plugin.ReadVisible(state))
	}
	if status != nil {
		return nil, status
	}
	state.Write(preFilterStateKey, s)
	if s.skipsFilter() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if s.scored() && !s.isWithoutDevices() {
		candidates.Write(state, Name, func() *candidates.Ranking { return pl.rank(s, nodes) })
	}
	return nil, nil
}

// parse returns what the pod asks for. The error is device.ParsePod's.
func (pl *GPUDevice) parse(pod *corev1.Pod) (preFilterState, error) {
	request, err := device.ParsePod(pod, pl.nodeKeys)
	if err != nil {
		return preFilterState{}, err
	}
	s := preFilterState{podRequest: device.PodRequest{Request: request}, claims: pl.mayClaimDevices(pod)}
	s.forbidden = s.isWithoutDevices() && pl.nonGPUPods == config.NonGPUPodsForbid && !isDaemonPod(pod)
	return s, nil
}

// beginCycle brings up to date what scores depend on beside the nodes.
func (pl *GPUDevice) beginCycle(s *preFilterState, pod *corev1.Pod, nodes []fwk.NodeInfo) {
	s.podRequest.CPUMilli = plugin.CPUMilli(pod)
	s.maxNode = pl.updateCluster(nodes)
	if len(s.podRequest.Request.Containers) > 0 {
		pl.workload.learn(pl, pod.UID, s.podRequest, nodes)
	}
}

// whyNoShare returns why this process, at this moment or ever, allocates no share to the pod,
// nil if it may or the pod asks for none.
func (pl *GPUDevice) whyNoShare(s *preFilterState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	switch {
	case s.podRequest.Request.Kind != device.RequestShares:
		return nil
	case pl.boundByExtender(pod):
		return pl.reject(rejectionInvalid, reasonOtherBinder)
	}
	return pl.allocations.whyNoShare(pod.UID, nodes)
}

// reject returns the status for a pod that can never be scheduled, and counts it.
func (pl *GPUDevice) reject(reason, text string) *fwk.Status {
	pl.counters.podRejections.WithLabelValues(pl.handle.ProfileName(), reason).Inc()
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
}

// leavesNonGPUPodsAlone reports whether no node is better than another for a pod without
// devices.
func (pl *GPUDevice) leavesNonGPUPodsAlone() bool {
	return pl.nonGPUPods != config.NonGPUPodsAvoid || pl.deviceNodes.none() && pl.publishedSlices.none()
}

// preFilterDryRun is PreFilter in a dry run of NodeCandidates: what there is to be found out
// is in the state. The nodes are ranked for a pod without devices only beside those that
// another plugin ranks for it.
func (pl *GPUDevice) preFilterDryRun(state fwk.CycleState, nodes []fwk.NodeInfo) *fwk.Status {
	s, err := getPreFilterState(state)
	switch {
	case err != nil || !s.scored() || s.isWithoutDevices() && pl.nonGPUPods != config.NonGPUPodsAvoid:
		candidates.Write(state, Name, nil)
	default:
		candidates.Write(state, Name, func() *candidates.Ranking { return pl.rank(s, nodes) })
	}
	if err != nil || s.skipsFilter() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreFilterExtensions returns nil: what is free is read from the NodeInfo, which
// the simulations of preemption and of nominated pods change.
func (pl *GPUDevice) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// invalidPodReason returns why ParsePod found the pod invalid, as a metric label.
func invalidPodReason(err error) string {
	if invalid, ok := errors.AsType[*device.InvalidError](err); ok {
		return string(invalid.Reason)
	}
	return rejectionInvalid
}

// isDaemonPod reports whether a DaemonSet controls the pod. Its controller makes
// one for each node, and an agent is there to run beside the pods with devices.
func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}
