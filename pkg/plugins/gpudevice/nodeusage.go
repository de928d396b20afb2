// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// What on a node uses which device, whoever gave it, is answered in this file; what one
// pod asks for and was given, in package device. Of the pods in a NodeInfo that have a node and have not terminated:
//
//   - one that asks for shares and has a record that can be believed uses what its
//     Allocation says of the node as it is now;
//   - one that asks for shares without such a record, or that was given UUIDs where the
//     node lists none any more, uses unknown devices (unrecorded);
//   - one that asks for a resource of a device plugin (a whole device, a MIG device, a
//     slice of time), or has a ResourceClaim that is or may be for devices of a DRA
//     driver of the arguments, uses unknown devices (usedOutsideShares);
//   - any other uses none. A quantity of zero asks for nothing.
//
// A shared node on which devices are used that are unknown takes no share. A node that
// is not shared and on which shares are held (sharesHeld) takes no pod of a device
// plugin and none with such a claim.

// calculateUsage computes what the pods use: those in the NodeInfo, and those that only the
// allocation cache knows to be there, perhaps. The pod without is left out.
func (pl *GPUDevice) calculateUsage(v *nodeView, nodeInfo fwk.NodeInfo, state *nodeState, without types.UID) {
	if v.node.Kind == device.NodeShared {
		pl.addPods(v, nodeInfo, without)
		return
	}
	v.sharesHeld = pl.holdsShares(v.object.Name, nodeInfo, without)
	v.keptMayCome = state.stoppedSharing.Load() && len(pl.allocations.kept.load()) > 0
}

// addPods adds to the usage of a shared node what the pods hold.
func (pl *GPUDevice) addPods(v *nodeView, nodeInfo fwk.NodeInfo, without types.UID) {
	otherRequested := pl.nodeRequestsDevicePluginResource(nodeInfo)
	var nominated []*corev1.Pod
	for _, podInfo := range nodeInfo.GetPods() {
		pod := podInfo.GetPod()
		if pod.UID == without || podphase.IsTerminated(pod) {
			continue
		}
		if pod.Spec.NodeName != "" && (otherRequested && pl.nodeKeys.HasDevicePluginRequest(pod) || pl.mayClaimDevices(pod)) {
			v.usedOutsideShares = true
		}
		if !device.HasShareRequest(pod) {
			continue
		}
		switch h := pl.allocations.allocationOn(pod.UID, v.object.Name); {
		case h != nil:
			v.cachedPods++
			v.otherInstance = v.otherInstance || h.otherInstance
			v.addAllocation(h.allocation)
		case pod.Spec.NodeName == "":
			nominated = append(nominated, pod)
		default:
			v.addAllocation(pl.allocations.allocationOfShownPod(pod, v.object.Name))
		}
	}
	if kept := pl.allocations.kept.load(); len(kept) > 0 {
		v.withoutKept = &nodeView{node: v.node, usage: v.usage}
		pl.addNominatedPods(v.withoutKept, nominated)
		v.usage.TakeAnywhere(kept)
	}
	pl.addNominatedPods(v, nominated)
}

// addAllocation adds what a pod was allocated; nil means unknown.
func (v *nodeView) addAllocation(allocation *device.Allocation) {
	if allocation == nil {
		v.unrecorded = true
		return
	}
	used, err := allocation.On(v.node)
	v.unrecorded = v.unrecorded || err != nil
	v.usage.Add(used)
}

// addNominatedPods adds what nominated pods will hold. They have no devices yet, and
// are given some as Reserve would, so that nobody of lower priority is given the
// last ones; which ones does not matter to the question whether another pod fits.
func (pl *GPUDevice) addNominatedPods(v *nodeView, nominated []*corev1.Pod) {
	for _, pod := range nominated {
		request, err := device.ParsePod(pod, pl.nodeKeys)
		if err != nil || request.Kind != device.RequestShares {
			continue
		}
		assignment, ok := device.Assign(device.BestFit{}, device.CandidateNode{Usage: &v.usage}, device.PodRequest{Request: request})
		if !ok {
			// Its victims are still here.
			v.nominatedPodWaits = true
			continue
		}
		used := assignment.PodUsage(request.Containers)
		v.usage.Add(&used)
	}
}

// besideNominatedPods returns the view as if the nominated pods of the node had devices, those
// of the pod's priority or a higher one, for which Filter leaves room too
// (RunFilterPluginsWithNominatedPods). It is the view itself where there are none, as a rule.
// A member of a pod group may be nominated for the node and in the NodeInfo at once.
func (pl *GPUDevice) besideNominatedPods(v *nodeView, nodeInfo fwk.NodeInfo, pod *corev1.Pod) *nodeView {
	var nominated []*corev1.Pod
	for _, podInfo := range pl.handle.NominatedPodsForNode(nodeInfo.Node().Name) {
		other := podInfo.GetPod()
		if other.UID == pod.UID || corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) || pl.allocations.get(other.UID) != nil {
			continue
		}
		if !slices.ContainsFunc(nodeInfo.GetPods(), func(shown fwk.PodInfo) bool { return shown.GetPod().UID == other.UID }) {
			nominated = append(nominated, other)
		}
	}
	if len(nominated) == 0 {
		return v
	}
	beside := &nodeView{node: v.node, usage: v.usage, cpuFree: v.cpuFree}
	pl.addNominatedPods(beside, nominated)
	return beside
}

// holdsShares reports whether a pod on a node that is not shared holds shares of its
// devices, of which it may be known which or not.
func (pl *GPUDevice) holdsShares(node string, nodeInfo fwk.NodeInfo, without types.UID) bool {
	requested := nodeInfo.GetRequested().GetScalarResources()
	if !slices.ContainsFunc(names.ShareResources[:], func(name string) bool { return requested[corev1.ResourceName(name)] != 0 }) {
		return false // as on nearly every such node
	}
	for _, podInfo := range nodeInfo.GetPods() {
		pod := podInfo.GetPod()
		if pod.UID == without || podphase.IsTerminated(pod) || pod.Spec.NodeName == "" || !device.HasShareRequest(pod) {
			continue
		}
		if pl.allocations.allocationOn(pod.UID, node) != nil || pl.allocations.allocationOfShownPod(pod, node) != noAllocation {
			return true
		}
	}
	return false
}

// nodeRequestsDevicePluginResource reports whether anything on the node requests a resource of a device
// plugin. The API server holds the limits of such resources to their requests.
func (pl *GPUDevice) nodeRequestsDevicePluginResource(nodeInfo fwk.NodeInfo) bool {
	for name, amount := range nodeInfo.GetRequested().GetScalarResources() {
		if amount != 0 && pl.nodeKeys.IsDevicePluginResource(name) {
			return true
		}
	}
	return false
}

// usesDevices reports whether the pod, where it runs, uses devices in any way.
func (pl *GPUDevice) usesDevices(pod *corev1.Pod) bool {
	return device.HasShareRequest(pod) || pl.nodeKeys.HasDevicePluginRequest(pod) || pl.mayClaimDevices(pod)
}
