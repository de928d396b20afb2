// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// reasonTexts are what users read of a node that cannot take the pod. The framework
// counts nodes by text, so there is one text for a cause and none names a node. None
// contains a percent sign: the scheduler uses them as a format string.
var reasonTexts = [device.Reasons]string{
	device.NodeNotShared:     "node(s) didn't share their devices (label " + names.GPUSharingLabel + "=true)",
	device.NodeIsShared:      "node(s) shared their devices and take no pods of a device plugin or of a ResourceClaim for devices",
	device.WrongModel:        "node(s) had devices of a model that the pod's " + names.GPUModelAnnotation + " doesn't list",
	device.TooLittleMemory:   "node(s) had devices with less memory than the pod's " + names.GPUMinMemoryAnnotation,
	device.LargerThanDevice:  "node(s) had devices with less memory than a container's " + names.GPUMemoryResource,
	device.TooFewDevices:     "node(s) had fewer devices than a container asks for",
	device.Forbidden:         "node(s) had devices, which nonGPUPods keeps for pods that ask for them",
	device.OtherPool:         "node(s) belonged to another GPU pool (label " + names.GPUPoolLabel + ")",
	device.OtherInstance:     "node(s) ran a pod whose share of a device another scheduler allocated: two schedulers serve one GPU pool",
	device.KeptForUnfenced:   "node(s) kept their free devices for pods that a former scheduler process may still bind",
	device.NoShare:           "node(s) didn't have enough free device share",
	device.NoMemory:          "node(s) didn't have enough free device memory",
	device.Unrecorded:        "node(s) ran a pod that uses devices without an allocation record",
	device.UsedOutsideShares: "node(s) shared their devices while a pod uses devices there that a device plugin or a ResourceClaim gave it",
	device.SharesHeld:        "node(s) ran a pod that holds a share of their devices, and take no pods of a device plugin or a ResourceClaim for devices until it is gone",
}

// invalidTexts are the same for a node that is refused because of what it says.
var invalidTexts = map[device.InvalidReason]string{
	device.InvalidSharing:         "node(s) had a value other than true or false in label " + names.GPUSharingLabel,
	device.AdvertisesDevicePlugin: "node(s) were labeled as shared and had devices of a device plugin in status.capacity",
	device.PublishesDRADevices:    "node(s) were labeled as shared and had a DRA driver that offers the same devices",
	device.TimeSliced:             "node(s) were labeled as shared and time-sliced their devices",
	device.Partitioned:            "node(s) were labeled as shared and had MIG devices",
	device.InvalidCount:           "node(s) were labeled as shared and didn't say how many devices they have",
	device.InvalidDeviceMemory:    "node(s) were labeled as shared and didn't say how much memory their devices have",
	device.InvalidReplicas:        "node(s) were labeled as shared and had a replicas label that is not a number",
	device.InvalidCordon:          "node(s) had an annotation " + names.GPUCordonedAnnotation + " that is no list of their devices",
	device.InvalidUUIDs:           "node(s) had an annotation " + names.GPUUUIDsAnnotation + " that doesn't name each of their devices",
}

// invalidCountText is that of a node that says how many devices it has, and not in the range.
var invalidCountText = fmt.Sprintf("node(s) were labeled as shared and had a number of devices that is not from 1 to %d", device.MaxDevices)

// reasonText returns what the user reads.
func reasonText(reason device.Reason, node *device.Node) string {
	if reason == device.InvalidNode {
		if node.Invalid.Reason == device.InvalidCount && node.Invalid.Value != "" {
			return invalidCountText
		}
		return cmp.Or(invalidTexts[node.Invalid.Reason], "node(s) described their devices in a way that cannot be understood")
	}
	return reasonTexts[reason]
}

// Filter rejects a node that cannot take the pod. It takes no lock and allocates
// nothing for a node that passes and has not changed since it was last looked at.
//
// A rejection is unresolvable unless evicting pods from the node could help. The
// Status is a fresh one, because the framework writes to it, for several nodes at
// once. Every call counts in the metric, those of preemption's dry runs too.
func (pl *GPUDevice) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	v := pl.view(nodeInfo, s.dryRun)
	reason := v.check(s)
	if reason == device.Fits {
		return nil
	}
	pl.counters.nodeRejections[reason].Inc()
	code := fwk.UnschedulableAndUnresolvable
	if reason.Resolvable() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, reasonText(reason, v.node))
}

// check returns why the node cannot take the pod, or device.Fits. It allocates nothing.
func (v *nodeView) check(s *preFilterState) device.Reason {
	request := s.podRequest.Request
	if s.forbidden {
		return v.checkForbidden()
	}
	if s.claims {
		// Whatever else the pod asks for: the devices of the claim must not be shared.
		switch v.node.Kind {
		case device.NodeInvalid:
			return device.InvalidNode
		case device.NodeShared, device.NodeInOtherPool:
			return device.NodeIsShared
		default:
			if reason := v.whyOnlyShares(); reason != device.Fits {
				return reason
			}
		}
	}
	if reason := v.node.Admits(request); reason != device.Fits {
		return reason
	}
	switch {
	case request.Kind == device.RequestNone:
	case request.Kind != device.RequestShares:
		return v.whyOnlyShares()
	case v.otherInstance:
		return device.OtherInstance
	case v.unrecorded:
		return device.Unrecorded
	case v.usedOutsideShares:
		return device.UsedOutsideShares
	case !v.fits(request):
		return v.whyNoRoom(request)
	}
	return device.Fits
}

// whyOnlyShares returns why a node that is not shared takes no pod of a device plugin or a
// DRA driver: its devices are allocated in shares, or may be at any moment.
func (v *nodeView) whyOnlyShares() device.Reason {
	switch {
	case v.sharesHeld:
		return device.SharesHeld
	case v.keptMayCome:
		return device.KeptForUnfenced
	}
	return device.Fits
}

// fits reports whether a shared node has room for the request.
func (v *nodeView) fits(request *device.Request) bool {
	return !v.nominatedPodWaits && v.usage.Fits(request)
}

// whyNoRoom returns why the request does not fit. Where it does but for the pods that are
// kept back, no pod is to be evicted for it: those may be fenced at any moment.
func (v *nodeView) whyNoRoom(request *device.Request) device.Reason {
	switch {
	case v.withoutKept != nil && v.withoutKept.fits(request):
		return device.KeptForUnfenced
	case v.nominatedPodWaits:
		return device.NoShare
	}
	return v.usage.Lacks(request)
}

// checkForbidden is check for a pod without devices that is kept off nodes with some.
func (v *nodeView) checkForbidden() device.Reason {
	if v.hasDevices() {
		return device.Forbidden
	}
	return device.Fits
}

// hasDevices reports whether the node has devices that somebody hands out.
func (v *nodeView) hasDevices() bool {
	return v.node.Kind != device.NodeWithoutDevices || v.publishedByDRA
}
