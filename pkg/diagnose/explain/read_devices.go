// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/output"
)

// devicesOf returns what is free of the devices of a node, and who uses the rest, as the
// pod's profile counts it.
func (s *situation) devicesOf(n fwk.NodeInfo) *deviceusage.NodeUsage {
	if s.deviceUsage == nil {
		s.deviceUsage = deviceusage.NewNodes(deviceusage.ObjectsOf(s.in.Objects), s.keys)
	}
	infos := n.GetPods()
	pods := make([]*corev1.Pod, 0, len(infos))
	for _, info := range infos {
		pods = append(pods, info.GetPod())
	}
	return s.deviceUsage.On(n.Node(), pods)
}

// largest returns what the container that asks for most asks for on the node.
func largest(request *device.Request, memoryMiB int64) (container *device.ContainerRequest, share device.Share) {
	for i := range request.Containers {
		c := &request.Containers[i]
		on, ok := c.On(memoryMiB)
		if !ok {
			on = device.Share{Milli: device.MilliPerDevice, MemoryMiB: max(c.MemoryMiB, memoryMiB)}
		}
		if container == nil || on.Milli*int64(c.Devices) > share.Milli*int64(container.Devices) {
			container, share = c, on
		}
	}
	return container, share
}

// detailDevices says what the plugin finds missing on the devices of a node, and who uses
// them.
func (s *situation) detailDevices(measure shortfall.Measure, n fwk.NodeInfo) string {
	text := measure.Describe(n)
	if strings.HasPrefix(text, "which ") {
		text = "" // the reason says the same
	}
	if s.request == nil {
		return text
	}
	d := s.devicesOf(n)
	if len(d.Unknown) > 0 && d.Node.Kind == device.NodeShared {
		unknown := make([]string, 0, len(d.Unknown))
		for _, pod := range d.Unknown {
			unknown = append(unknown, podText(pod))
		}
		return "used by " + output.List(unknown, maxListed)
	}
	if d.Node.Admits(s.request) != device.Fits || len(s.request.Containers) == 0 {
		return text
	}
	miss := d.Usage.Misses(s.request)
	if miss.Device < 0 || miss.Devices > 1 {
		return text
	}
	var held []string
	for _, h := range d.Holders[miss.Device] {
		held = append(held, fmt.Sprintf("%s (%dm, %s)", podText(h.Pod), h.Share.Milli, device.FormatMiB(h.Share.MemoryMiB)))
	}
	if len(held) > 0 {
		text += "; allocated to " + output.List(held, maxListed)
	}
	return text
}
