// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// signature is all that the plugin reads of a pod, apart from its CPU, which
// NodeResourcesFit signs. Two pods with equal signatures get the same verdict for
// every node, and the same score as long as the expected workload is the same.
type signature struct {
	// Request is what the pod asks for.
	Request string `json:"request,omitempty"`
	// Models and MinMemoryMiB constrain the devices.
	Models       string `json:"models,omitempty"`
	MinMemoryMiB int64  `json:"minMemoryMiB,omitempty"`
	// Daemon is set only where it makes a difference.
	Daemon bool `json:"daemon,omitempty"`
}

// SignPod signs every pod but those that PreFilter refuses: no result depends on
// the labels or the names of other pods.
func (pl *GPUDevice) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	request, err := device.ParsePod(pod, pl.nodeKeys)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod's request for devices cannot be served")
	}
	if len(pod.Spec.ResourceClaims) > 0 || pl.asksForOthersResources(pod) && pl.mayClaimDevices(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what the pod's ResourceClaims are for may change")
	}
	var value signature
	if request.Kind == device.RequestNone {
		value.Daemon = pl.nonGPUPods == config.NonGPUPodsForbid && isDaemonPod(pod)
	} else {
		value = signature{Request: requestKey(request), Models: request.Models.String(), MinMemoryMiB: request.MinMemoryMiB}
	}
	return []fwk.SignFragment{{Key: names.GPUDeviceFragment, Value: value}}, nil
}
