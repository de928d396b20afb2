// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod signs the pods that ask for nothing, all alike. Where the others fit
// depends on where other pods are, which no signature can say.
func (pl *Colocation) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	r, err := pl.requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what the pod wants to be near is not known")
	}
	if !r.none() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod's node depends on where other pods are")
	}
	return nil, nil
}
