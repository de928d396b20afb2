// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve lets the pod attract others from now on, whether or not it asks for
// anything itself.
func (pl *Colocation) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	pl.instance.index.Reserve(pod, nodeName)
	return nil
}

// Unreserve takes that back. Called again, or for a pod that was not reserved, it
// does nothing.
func (pl *Colocation) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	pl.instance.index.Unreserve(pod.UID)
}
