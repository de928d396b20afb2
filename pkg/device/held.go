// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Held is what a bound pod has of the devices of its node, as far as the pod itself says:
// what a ResourceClaim gives it is [Claims.MayHaveDevices]'s to say.
type Held struct {
	// Allocation is what it was given in shares; nil for a pod that asks for none, and for
	// one without a valid record.
	Allocation *Allocation
	// Used is what that is of each device of the node as it is now.
	Used PodUsage
	// Unknown says why it is not known which devices the pod's shares are of; nil if it is,
	// and for a pod without shares.
	Unknown error
	// Whole is how many devices of a device plugin the pod has.
	Whole int64
}

// HeldOn returns what a bound pod has of the devices of the node. It is the answer of
// GPUDevice: a record counts for the node as it is now ([Allocation.On]).
func (k *NodeKeys) HeldOn(n *Node, pod *corev1.Pod) Held {
	var h Held
	if HasShareRequest(pod) {
		if h.Allocation, h.Unknown = ParseAllocation(pod); h.Unknown == nil {
			var used *PodUsage
			used, h.Unknown = h.Allocation.On(n)
			h.Used = *used
		}
	}
	if k.HasDevicePluginRequest(pod) {
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		for _, name := range k.PluginResources {
			quantity := requests[name]
			h.Whole += quantity.Value()
		}
	}
	return h
}
