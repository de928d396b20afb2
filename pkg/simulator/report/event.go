// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// Event is what became of one pod that arrived.
type Event struct {
	// Pod is the pod as it is afterwards: where it was bound, with the annotations
	// of its Binding.
	Pod *corev1.Pod
	// Asked is what the pod asks for where Pod asks for more, because its scheduler
	// knows whole devices alone: it arrives, fails and is allocated as Asked, and the
	// rest of the devices that it takes is idle and of no use to anybody. nil is Pod.
	Asked *corev1.Pod
	// Node is the node that it was bound to; empty if it was not.
	Node string
	// Message says why it was not bound; empty if it was.
	Message string
	// Victims are pods that were evicted for it.
	Victims []*corev1.Pod
	// Beside is whether the pod is not asked about: it is pending in the cluster to which
	// manifests are applied.
	Beside bool
	// PodGroup is the PodGroup with which it was placed, as namespace/name; empty if it was
	// placed alone. Proposed is the node that was found for it if it was not bound because
	// too few others of the PodGroup found one.
	PodGroup, Proposed string
	// Claimed are the devices that the pod has by ResourceClaims.
	Claimed []cluster.ClaimDevice
}

// Placement is an Event as it is listed.
type Placement struct {
	// Pod is namespace/name, and Of its controller, as in "Deployment default/web".
	Pod string `json:"pod"`
	Of  string `json:"of,omitempty"`
	// Node is the node that it was bound to; empty if it was not.
	Node string `json:"node,omitempty"`
	// Devices is the annotation gpu-assigned: what each container was given. Empty
	// for a pod that was given none by GPUDevice.
	Devices string `json:"devices,omitempty"`
	// Claimed are the devices that it has by ResourceClaims.
	Claimed []cluster.ClaimDevice `json:"claimed,omitempty"`
	// Message says why it was not bound; empty if it was.
	Message string `json:"message,omitempty"`
	// Evicts are the pods that have to go for it, as namespace/name.
	Evicts []string `json:"evicts,omitempty"`
	// Beside, PodGroup and Proposed are as in [Event].
	Beside   bool   `json:"beside,omitempty"`
	PodGroup string `json:"podGroup,omitempty"`
	Proposed string `json:"proposed,omitempty"`
}
