// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/deviceusage"
	"github.com/berth-scheduler/berth/pkg/nearmiss"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// devicesOf returns what is free of the devices of a node, and who holds the rest: what the
// pod's profile counts.
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

func rankDevices(s *situation, _ engine.Verdict, n fwk.NodeInfo) (rank int, gap float64) {
	if s.request == nil {
		return nearmiss.Other, 0
	}
	node := device.ParseNode(n.Node(), s.keys)
	switch node.Admits(s.request) {
	case device.NodeNotShared, device.NodeIsShared:
		if node.Kind == device.NodeWithoutDevices {
			return nearmiss.Lacks, 0
		}
		return nearmiss.Other, 0
	case device.LargerThanDevice, device.TooFewDevices:
		return nearmiss.Small, 0
	case device.Fits:
		if len(s.request.Containers) == 0 || node.Kind != device.NodeShared {
			return nearmiss.Other, 0
		}
		_, share := largest(s.request, node.MemoryMiB)
		_, gap := s.devicesOf(n).Usage.Nearest(share)
		return nearmiss.Busy, gap
	default:
		return nearmiss.Other, 0
	}
}

func detailDevices(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	if s.request == nil {
		return ""
	}
	d := s.devicesOf(n)
	switch d.Node.Admits(s.request) {
	case device.WrongModel:
		return fmt.Sprintf("its devices are of model %q", d.Node.Model)
	case device.TooLittleMemory, device.LargerThanDevice:
		return "its devices have " + device.FormatMiB(d.Node.MemoryMiB)
	case device.TooFewDevices:
		usable := d.Node.Devices - d.Node.Cordoned.Len()
		return fmt.Sprintf("it has %s, %d of them cordoned", output.Count(usable+d.Node.Cordoned.Len(), "device"), d.Node.Cordoned.Len())
	case device.InvalidNode:
		return d.Node.Invalid.Error()
	case device.Fits:
		return heldText(d, s.request)
	default:
		return ""
	}
}

// heldText says what is free on the device that comes nearest, and who holds the rest.
func heldText(d *deviceusage.NodeUsage, request *device.Request) string {
	if len(d.Unknown) > 0 {
		unknown := make([]string, 0, len(d.Unknown))
		for _, pod := range d.Unknown {
			unknown = append(unknown, podText(pod))
		}
		return "nobody knows which devices these use: " + output.List(unknown, maxListed)
	}
	if d.Node.Kind != device.NodeShared || len(request.Containers) == 0 {
		return ""
	}
	container, share := largest(request, d.Node.MemoryMiB)
	if container.Devices > 1 || share.Milli == device.MilliPerDevice {
		return fmt.Sprintf("%d of its %d devices are free, and container %s asks for %d",
			d.Usage.Devices()-d.Usage.InUse()-d.Node.Cordoned.Len(), d.Usage.Devices(), container.Container, container.Devices)
	}
	i, _ := d.Usage.Nearest(share)
	if i < 0 {
		return "all its devices are cordoned"
	}
	free := d.Usage.Free(i)
	text := fmt.Sprintf("device %d has %dm and %s free, and container %s asks for %dm and %s",
		i, max(0, free.Milli), device.FormatMiB(max(0, free.MemoryMiB)), container.Container, share.Milli, device.FormatMiB(share.MemoryMiB))
	var held []string
	for _, h := range d.Holders[i] {
		held = append(held, fmt.Sprintf("%s (%dm, %s)", podText(h.Pod), h.Share.Milli, device.FormatMiB(h.Share.MemoryMiB)))
	}
	if len(held) > 0 {
		text += "; held by " + output.List(held, maxListed)
	}
	return text
}
