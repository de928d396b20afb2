// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// RequestFormat is how pods and nodes express devices.
type RequestFormat string

const (
	// Shares has shares of devices as berth.dev resources, on nodes that are labeled
	// as shared: for schedulers with GPUDevice.
	Shares RequestFormat = "Shares"
	// DevicePlugin has each share as one whole nvidia.com/gpu, on nodes that advertise
	// their devices as a device plugin does: for schedulers that know no shares. It
	// needs more devices for the same pods, and a report says so.
	DevicePlugin RequestFormat = "DevicePlugin"
)

// RequestFormats returns both.
func RequestFormats() []RequestFormat { return []RequestFormat{Shares, DevicePlugin} }

// Plan is a workload written out: the objects to create, and when. It is a function
// of the workload and the format alone, and both requestFormats have the same pods, by
// name, at the same times. Names are unique within it; pods, Services and
// Deployments have no namespace, which the run decides.
type Plan struct {
	// Nodes have status and labels as the kubelet and GPU feature discovery would
	// have written them, and neither a taint nor a mark of the run. Who renames one
	// must change its label kubernetes.io/hostname and the Existing pods on it, too.
	Nodes []corev1.Node
	// Services are created before any pod.
	Services []corev1.Service
	// Deployments say who calls whom (package callgraph). They are not created: the
	// pods that they stand for are among Existing and Arrivals, with the labels that
	// the selectors ask for.
	Deployments []appsv1.Deployment
	// Existing are bound by the run itself, to spec.nodeName, before anything is
	// measured.
	Existing []corev1.Pod
	// Arrivals are in the order of their times.
	Arrivals []Arrival
	// Hostile is the hostile namespace; nil if there is none.
	Hostile *HostilePlan
	// Notes are sentences that a reader of the result must know, such as that shares
	// were given out as whole devices.
	Notes []string

	// groups are what was asked for, by the names of the pods.
	groups map[string]*Group
}

// Group returns what the workload says of a pod, by the name that it has in the plan,
// in whatever format it is written out; nil for a pod that is not part of it.
func (p *Plan) Group(podName string) *Group { return p.groups[podName] }

// Group is what the workload says of pods that are alike.
type Group struct {
	// Name is the group's, or the Deployment's of an application.
	Name string
	// Devices is how many devices each pod asks for: 0 for none, 1 for a share.
	Devices int
	// Milli is what it asks for of each, in thousandths: 1000 for whole devices, and 0
	// where a share is asked for by its memory.
	Milli int64
	// MemoryMiB is what it asks for of the device, where a share is asked for by its
	// memory.
	MemoryMiB int64
	// RequireNodeLabels and ForbidNodeLabels are the label keys that a node of these
	// pods must carry, and must not.
	RequireNodeLabels, ForbidNodeLabels []string
}

// Allows reports whether a node with these labels is one that the workload wants the
// group's pods on. A pod on another one is a label violation.
func (g *Group) Allows(nodeLabels map[string]string) bool {
	for _, key := range g.RequireNodeLabels {
		if _, ok := nodeLabels[key]; !ok {
			return false
		}
	}
	for _, key := range g.ForbidNodeLabels {
		if _, ok := nodeLabels[key]; ok {
			return false
		}
	}
	return true
}

// Arrival is a pod that is created during the run.
type Arrival struct {
	// Pod has no spec.schedulerName: the run sets it.
	Pod *corev1.Pod
	// At is the time of its creation from the start of the run. All zero is a burst.
	At time.Duration
	// Lifetime is how long after its binding the pod is deleted; 0 is never.
	Lifetime time.Duration
}
