// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/device"
)

// podRequest is what a pod asks for.
type podRequest struct {
	// request is what it asks of devices; of FormNone if it asks for none, and if
	// what it asks for can never be served.
	request *device.Request
	// less is whether that is less than the whole devices that the pod is given.
	less bool
	// cpuMilli and memory (bytes) are its requests.
	cpuMilli, memory int64
}

func podRequestOf(pod *corev1.Pod, keys *device.NodeKeys) podRequest {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	request, err := device.ParsePod(pod, keys)
	if err != nil {
		request = &device.Request{}
	}
	return podRequest{request: request, cpuMilli: requests.Cpu().MilliValue(), memory: requests.Memory().Value()}
}

// milli returns the compute that the pod asks for at the busiest point of its
// life, in thousandths of a device, where devices have memoryMiB each.
func (d *podRequest) milli(memoryMiB int64) int64 {
	return d.request.AtPeak(max(1, memoryMiB)).Milli
}

// shape is a kind of pod by which failures are told apart.
type shape int

const (
	// cpuOnly asks for no device.
	cpuOnly shape = iota
	// share asks for a part of a device in at least one container.
	share
	// whole asks for whole devices alone.
	whole
	shapes = int(iota)
)

func (d *podRequest) shape() shape {
	if d.request.Kind == device.RequestNone {
		return cpuOnly
	}
	for i := range d.request.Containers {
		if d.request.Containers[i].Milli < device.MilliPerDevice {
			return share
		}
	}
	return whole
}

// several reports whether the pod asks for more than one whole device.
func (d *podRequest) several() bool {
	return d.shape() == whole && d.milli(1) > device.MilliPerDevice
}

// constrained reports whether the pod accepts only some devices.
func (d *podRequest) constrained() bool {
	return d.request.Constrained()
}
