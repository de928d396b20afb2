// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

const reasonOtherBinder = "the pod can never be scheduled: it asks for shares of devices and for a resource whose extender binds the pod itself, without their record: ask for one of the two"

// boundByExtender reports whether an extender would bind the pod: upstream asks those before
// all plugins. One that is for shares, or for all pods, keeps the scheduler from
// starting (package registry); a pod may also ask for shares and for what another one manages.
func (pl *GPUDevice) boundByExtender(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pl.handle.Extenders(), func(e fwk.Extender) bool { return e.IsBinder() && e.IsInterested(pod) })
}
