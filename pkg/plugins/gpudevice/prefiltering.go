// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/visible"
)

// PreFilter finds out what the pod asks for, and refuses what can never be given.
// It narrows the set of nodes no further: nominated and hinted nodes pass by a
// PreFilterResult, so Filter has to look at every node anyway. To NodeCandidates it
// leaves a ranking of all nodes.
func (pl *GPUDevice) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if candidates.IsDryRun(state) {
		return nil, pl.preFilterDryRun(state, nodes)
	}
	request, err := device.ParsePod(pod, pl.nodeKeys)
	if err != nil {
		// Nothing but another pod can help. Evicting pods would not.
		pl.countRejection(invalidPodReason(err))
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod can never be scheduled: "+messages.Escape(err.Error()))
	}
	claims := pl.mayClaimDevices(pod)
	none := request.Kind == device.RequestNone && !claims
	forbidden := none && pl.forbidsNonGPUPod(pod)
	if none && !forbidden && pl.leavesNonGPUPodsAlone() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	s := &preFilterState{podRequest: device.PodRequest{Request: request}, claims: claims, forbidden: forbidden}
	if status := pl.refuseShare(request, pod, nodes); status != nil {
		return nil, status
	}
	s.podRequest.CPUMilli = cpuMilli(pod)
	s.maxNode = pl.updateCluster(nodes)
	if len(request.Containers) > 0 {
		pl.workload.learn(pl, pod, s.podRequest, nodes)
	}
	if reason := pl.whyNeverFits(request, nodes, visible.Read(state)); reason != "" {
		pl.countRejection(rejectionNoNode)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	state.Write(preFilterStateKey, s)
	if s.skipsFilter() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if !none && s.scored() {
		candidates.Write(state, Name, func() *candidates.Ranking { return pl.rank(s, nodes) })
	}
	return nil, nil
}

// refuseShare returns why this process, at this moment or ever, does not give the pod a share,
// nil if it may or the pod asks for none.
func (pl *GPUDevice) refuseShare(request *device.Request, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if request.Kind != device.RequestShares {
		return nil
	}
	if pl.boundByExtender(pod) {
		pl.countRejection(rejectionInvalid)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonOtherBinder)
	}
	return pl.allocations.whyNoShare(pod, nodes)
}

// forbidsNonGPUPod reports whether a pod without devices is kept off the nodes that have some.
func (pl *GPUDevice) forbidsNonGPUPod(pod *corev1.Pod) bool {
	return pl.nonGPUPods == config.NonGPUPodsForbid && !isDaemonPod(pod)
}

// leavesNonGPUPodsAlone reports whether no node is better than another for a pod without
// devices.
func (pl *GPUDevice) leavesNonGPUPodsAlone() bool {
	return pl.nonGPUPods != config.NonGPUPodsAvoid || pl.noDevices()
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

// noDevices reports whether no node has devices; see deviceNodes.none.
func (pl *GPUDevice) noDevices() bool { return pl.deviceNodes.none() && pl.publishedSlices.none() }

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

func (pl *GPUDevice) countRejection(reason string) {
	pl.counters.podRejections.WithLabelValues(pl.handle.ProfileName(), reason).Inc()
}

// isDaemonPod reports whether a DaemonSet controls the pod. Its controller makes
// one for each node, and an agent is there to run beside the pods with devices.
func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// whyNeverFits returns why no node of the cluster can ever take the request, or "".
// As a rule the first node that is asked could: the one that could last time. All
// are asked only for a pod that no Filter would let through either. The answer is about the
// nodes that the pod's owner may know of.
func (pl *GPUDevice) whyNeverFits(request *device.Request, nodes []fwk.NodeInfo, sees visible.Func) string {
	if request.Kind == device.RequestNone {
		return ""
	}
	var rejections [device.Reasons]int
	if pl.nextStartNodeIndex >= len(nodes) {
		pl.nextStartNodeIndex = 0
	}
	for i := range nodes {
		at := (pl.nextStartNodeIndex + i) % len(nodes)
		if !sees(nodes[at].Node()) {
			continue
		}
		rejection := pl.view(nodes[at], false).node.Admits(request)
		if rejection == device.Fits {
			pl.nextStartNodeIndex = at
			return ""
		}
		rejections[rejection]++
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return !sees(node.Node()) })
	switch {
	case rejections[device.LargerThanDevice] > 0:
		return fmt.Sprintf("no node's devices are large enough: the largest %s that a container can be given here is %s",
			names.GPUMemoryResource, device.FormatMiB(largestMemory(pl, request, nodes)))
	case rejections[device.TooFewDevices] > 0:
		return fmt.Sprintf("no node has as many devices as a container asks for (limit %s, %d for each)", names.GPUMilliResource, device.MilliPerDevice)
	case rejections[device.TooLittleMemory] > 0:
		return fmt.Sprintf("no node's devices have the memory of annotation %s: they have up to %s",
			names.GPUMinMemoryAnnotation, device.FormatMiB(largestMemory(pl, request, nodes)))
	case rejections[device.WrongModel] > 0:
		return fmt.Sprintf("no node's devices are of a model in annotation %s: there are %s%s", names.GPUModelAnnotation, modelList(pl, request, nodes), widerPattern(pl, request, nodes))
	case rejections[device.InvalidNode] > 0 && request.Kind == device.RequestShares:
		return fmt.Sprintf("no node can share its devices: %d node(s) with label %s contradict themselves, the metric berth_gpudevice_refused_nodes says how",
			rejections[device.InvalidNode], names.GPUSharingLabel)
	case request.Kind == device.RequestShares && *pl.nodeKeys.Pool != "":
		return fmt.Sprintf("no node of GPU pool %[1]s shares its devices: a limit %[2]s or %[3]s needs a node with the labels %[4]s=true and %[5]s=%[1]s",
			*pl.nodeKeys.Pool, names.GPUMilliResource, names.GPUMemoryResource, names.GPUSharingLabel, names.GPUPoolLabel)
	case request.Kind == device.RequestShares:
		return fmt.Sprintf("no node shares its devices: a limit %s or %s needs a node with label %s=true",
			names.GPUMilliResource, names.GPUMemoryResource, names.GPUSharingLabel)
	default:
		// Device-plugin pods: which resource is missing is for NodeResourcesFit.
		return ""
	}
}

// forEachNodeOfKind calls do for every node that takes requests of this form.
func forEachNodeOfKind(pl *GPUDevice, request *device.Request, nodes []fwk.NodeInfo, do func(*device.Node)) {
	kind := device.NodeShared
	if request.Kind != device.RequestShares {
		kind = device.NodeDevicePlugin
	}
	for _, nodeInfo := range nodes {
		if node := pl.view(nodeInfo, false).node; node.Kind == kind {
			do(node)
		}
	}
}

func largestMemory(pl *GPUDevice, request *device.Request, nodes []fwk.NodeInfo) int64 {
	var largest int64
	forEachNodeOfKind(pl, request, nodes, func(node *device.Node) {
		if request.Models.Match(node.Model) {
			largest = max(largest, node.MemoryMiB)
		}
	})
	return largest
}

// maxListedModels bounds the text of an event.
const maxListedModels = 8

func modelList(pl *GPUDevice, request *device.Request, nodes []fwk.NodeInfo) string {
	var models []string
	forEachNodeOfKind(pl, request, nodes, func(node *device.Node) {
		if len(models) <= maxListedModels && !slices.Contains(models, node.Model) {
			models = append(models, node.Model)
		}
	})
	if len(models) == 0 {
		return "none"
	}
	slices.Sort(models)
	more := ""
	if len(models) > maxListedModels {
		models, more = models[:maxListedModels], " and others"
	}
	for i := range models {
		models[i] = fmt.Sprintf("%q", models[i])
	}
	return strings.Join(models, ", ") + more
}

// widerPattern says which pattern would match a model that is there, if one with a *
// more would.
func widerPattern(pl *GPUDevice, request *device.Request, nodes []fwk.NodeInfo) string {
	var pattern, matched string
	asked := map[string]bool{}
	forEachNodeOfKind(pl, request, nodes, func(node *device.Node) {
		if asked[node.Model] {
			return // the same answer: a cluster has few models
		}
		asked[node.Model] = true
		if wider := request.Models.Widened(node.Model); wider != "" && (matched == "" || node.Model < matched) {
			pattern, matched = wider, node.Model
		}
	})
	if pattern == "" {
		return ""
	}
	return fmt.Sprintf("; the pattern %q would match %q", pattern, matched)
}
