// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// What users read of a node that is refused. The framework counts nodes by text,
// so there is one text for a cause and none names a node. None contains a percent
// sign: the scheduler uses them as a format string.
const (
	reasonNotShared        = "node(s) didn't share their devices (label " + names.GPUSharingLabel + "=true)"
	reasonShared           = "node(s) shared their devices and take no pods of a device plugin or of a ResourceClaim for devices"
	reasonWrongModel       = "node(s) had devices of a model that the pod's " + names.GPUModelAnnotation + " doesn't list"
	reasonTooLittleMemory  = "node(s) had devices with less memory than the pod's " + names.GPUMinMemoryAnnotation
	reasonLargerThanDevice = "node(s) had devices with less memory than a container's " + names.GPUMemoryResource
	reasonTooFewDevices    = "node(s) had fewer devices than a container asks for"
	reasonNoShare          = "node(s) didn't have enough free device share"
	reasonNoMemory         = "node(s) didn't have enough free device memory"
	reasonUnassignedPod    = "node(s) ran a pod that uses devices without a record of which"
	reasonOtherUse         = "node(s) shared their devices while a pod uses devices there that a device plugin or a ResourceClaim gave it"
	reasonSharesHeld       = "node(s) ran a pod that holds a share of their devices, and take no pods of a device plugin or a ResourceClaim for devices until it is gone"
	reasonForbidden        = "node(s) had devices, which nonGPUPods keeps for pods that ask for them"

	reasonRefusedSharing   = "node(s) had a value other than true or false in label " + names.GPUSharingLabel
	reasonRefusedPlugin    = "node(s) were labelled as shared and had a device plugin that hands out the same devices"
	reasonRefusedDRA       = "node(s) were labelled as shared and had a DRA driver that offers the same devices"
	reasonRefusedSliced    = "node(s) were labelled as shared and time-sliced their devices"
	reasonRefusedMIG       = "node(s) were labelled as shared and had MIG devices"
	reasonRefusedCount     = "node(s) were labelled as shared and didn't say how many devices they have"
	reasonRefusedMemory    = "node(s) were labelled as shared and didn't say how much memory their devices have"
	reasonRefusedReplicas  = "node(s) were labelled as shared and had a replicas label that is no number"
	reasonRefusedCordon    = "node(s) had an annotation " + names.GPUCordonedAnnotation + " that is no list of their devices"
	reasonRefusedUUIDs     = "node(s) had an annotation " + names.GPUUUIDsAnnotation + " that doesn't name each of their devices"
	reasonRefusedOtherwise = "node(s) described their devices in a way that cannot be understood"
)

// reasonNotPending is about the pod and no node: it is gone, has ended, or was bound
// by another scheduler.
const reasonNotPending = "the pod is not pending any more"

// reason returns what the user reads.
func (r verdict) reason(node *device.Node) string {
	switch r {
	case verdictNotShared:
		return reasonNotShared
	case verdictShared:
		return reasonShared
	case verdictWrongModel:
		return reasonWrongModel
	case verdictTooLittleMemory:
		return reasonTooLittleMemory
	case verdictLargerThanDevice:
		return reasonLargerThanDevice
	case verdictTooFewDevices:
		return reasonTooFewDevices
	case verdictNoShare:
		return reasonNoShare
	case verdictNoMemory:
		return reasonNoMemory
	case verdictUnassigned:
		return reasonUnassignedPod
	case verdictOtherUse:
		return reasonOtherUse
	case verdictSharesHeld:
		return reasonSharesHeld
	case verdictForbidden:
		return reasonForbidden
	default:
		return refusedReason(node.Refusal.Reason)
	}
}

func refusedReason(reason device.RefusalReason) string {
	switch reason {
	case device.InvalidSharing:
		return reasonRefusedSharing
	case device.AdvertisesDevicePlugin:
		return reasonRefusedPlugin
	case device.OffersDRA:
		return reasonRefusedDRA
	case device.TimeSliced:
		return reasonRefusedSliced
	case device.Partitioned:
		return reasonRefusedMIG
	case device.InvalidCount:
		return reasonRefusedCount
	case device.InvalidDeviceMemory:
		return reasonRefusedMemory
	case device.InvalidReplicas:
		return reasonRefusedReplicas
	case device.InvalidCordon:
		return reasonRefusedCordon
	case device.InvalidUUIDs:
		return reasonRefusedUUIDs
	default:
		return reasonRefusedOtherwise
	}
}
