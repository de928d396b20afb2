// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Dialect is how pods and nodes express devices.
type Dialect string

const (
	// Shares has shares of devices as berth.dev resources, on nodes that are labelled
	// as shared: for schedulers with GPUDevice.
	Shares Dialect = "Shares"
	// DevicePlugin has each share as one whole nvidia.com/gpu, on nodes that advertise
	// their devices as a device plugin does: for schedulers that know no shares. It
	// needs more devices for the same pods, and a report says so.
	DevicePlugin Dialect = "DevicePlugin"
)

// Plan is a workload written out: the objects to create, and when. It is a function
// of the workload and the dialect alone. Names are unique within it; pods, Services
// and Deployments have no namespace, which the run decides.
type Plan struct {
	// Nodes have status and labels as the kubelet and GPU feature discovery would
	// have written them, and neither a taint nor a mark of the run.
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
	// Notes are sentences that a reader of the result must know, such as that shares
	// were given out as whole devices.
	Notes []string
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
