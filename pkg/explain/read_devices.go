// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/nearmiss"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// nodeDevices is what is free on a node that shares its devices, and who holds the rest.
type nodeDevices struct {
	node    *device.Node
	usage   device.Usage
	holders [device.MaxDevices][]holder
	// unknown are pods of which nobody knows which devices they use.
	unknown []string
}

// holder is a pod that holds a share of a device.
type holder struct {
	pod   *corev1.Pod
	share device.Share
}

// devicesOf reads the devices of a node. A pod without a record counts as unknown.
func devicesOf(n fwk.NodeInfo, keys *device.NodeKeys) *nodeDevices {
	d := &nodeDevices{node: device.ParseNode(n.Node(), keys)}
	if d.node.Kind != device.NodeShared {
		return d
	}
	d.usage, _ = d.node.Usage()
	for _, info := range n.GetPods() {
		pod := info.GetPod()
		allocation, err := device.ParseAllocation(pod)
		if err != nil {
			if request, err := device.ParsePod(pod, keys); err != nil || request.Kind != device.RequestNone {
				d.unknown = append(d.unknown, klog.KObj(pod).String())
			}
			continue
		}
		used, err := allocation.On(d.node)
		if err != nil {
			d.unknown = append(d.unknown, klog.KObj(pod).String())
		}
		d.usage.Add(used)
		for i := range used.Devices().All() {
			if i < device.MaxDevices {
				d.holders[i] = append(d.holders[i], holder{pod: pod, share: used[i]})
			}
		}
	}
	return d
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
		_, gap := devicesOf(n, s.keys).usage.Nearest(share)
		return nearmiss.Busy, gap
	default:
		return nearmiss.Other, 0
	}
}

func detailDevices(s *situation, _ engine.Verdict, n fwk.NodeInfo) string {
	if s.request == nil {
		return ""
	}
	d := devicesOf(n, s.keys)
	switch d.node.Admits(s.request) {
	case device.WrongModel:
		return fmt.Sprintf("its devices are of model %q", d.node.Model)
	case device.TooLittleMemory, device.LargerThanDevice:
		return "its devices have " + device.FormatMiB(d.node.MemoryMiB)
	case device.TooFewDevices:
		usable := d.node.Devices - d.node.Cordoned.Len()
		return fmt.Sprintf("it has %s, %d of them cordoned", output.Count(usable+d.node.Cordoned.Len(), "device"), d.node.Cordoned.Len())
	case device.InvalidNode:
		return d.node.Invalid.Error()
	case device.Fits:
		return d.detail(s.request)
	default:
		return ""
	}
}

// detail says what is free on the device that comes nearest, and who holds the rest.
func (d *nodeDevices) detail(request *device.Request) string {
	if len(d.unknown) > 0 {
		return "nobody knows which devices these use: " + output.List(d.unknown, maxListed)
	}
	if d.node.Kind != device.NodeShared || len(request.Containers) == 0 {
		return ""
	}
	container, share := largest(request, d.node.MemoryMiB)
	if container.Devices > 1 || share.Milli == device.MilliPerDevice {
		return fmt.Sprintf("%d of its %d devices are free, and container %s asks for %d",
			d.usage.Devices()-d.usage.InUse()-d.node.Cordoned.Len(), d.usage.Devices(), container.Container, container.Devices)
	}
	i, _ := d.usage.Nearest(share)
	if i < 0 {
		return "all its devices are cordoned"
	}
	free := d.usage.Free(i)
	text := fmt.Sprintf("device %d has %dm and %s free, and container %s asks for %dm and %s",
		i, max(0, free.Milli), device.FormatMiB(max(0, free.MemoryMiB)), container.Container, share.Milli, device.FormatMiB(share.MemoryMiB))
	var held []string
	for _, h := range d.holders[i] {
		held = append(held, fmt.Sprintf("%s (%dm, %s)", klog.KObj(h.pod), h.share.Milli, device.FormatMiB(h.share.MemoryMiB)))
	}
	if len(held) > 0 {
		text += "; held by " + output.List(held, maxListed)
	}
	return text
}
