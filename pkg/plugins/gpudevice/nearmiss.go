// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/messages"
)

var _ shortfall.Plugin = &GPUDevice{}

// NearMiss returns how far nodes are for a pod that asks for devices, or that nonGPUPods
// keeps from them; nil for others, and for one that asks for what nobody can give.
func (pl *GPUDevice) NearMiss(pod *corev1.Pod) shortfall.Measure {
	s, err := pl.parse(pod)
	if err != nil || s.skipsFilter() {
		return nil
	}
	return &nearMiss{pl: pl, state: &s}
}

// nearMiss measures nodes for one pod, by the views that Filter has looked at.
type nearMiss struct {
	pl    *GPUDevice
	state *preFilterState
}

// Distance implements shortfall.Measure.
func (m *nearMiss) Distance(nodeInfo fwk.NodeInfo) (rank int, gap float64) {
	v := m.pl.view(nodeInfo, false)
	switch reason := v.check(m.state); reason {
	case device.Fits:
		return 0, 0
	case device.NoShare, device.NoMemory:
		miss := v.usage.Misses(m.state.podRequest.Request)
		return shortfall.Busy, miss.Gap
	case device.LargerThanDevice, device.TooFewDevices, device.TooLittleMemory:
		return shortfall.Small, 0
	case device.NodeNotShared:
		if v.node.Kind == device.NodeWithoutDevices {
			return shortfall.Lacks, 0
		}
		return shortfall.Unlike, 0
	case device.WrongModel:
		return shortfall.Unlike, 0
	case device.Unrecorded, device.UsedOutsideShares, device.SharesHeld, device.OtherInstance, device.KeptForUnfenced:
		return shortfall.Apart, 0
	default:
		return shortfall.Other, 0
	}
}

// Describe implements shortfall.Measure.
func (m *nearMiss) Describe(nodeInfo fwk.NodeInfo) string {
	v := m.pl.view(nodeInfo, false)
	reason := v.check(m.state)
	switch reason {
	case device.Fits:
		return ""
	case device.NoShare, device.NoMemory:
		if v.nominatedPodWaits {
			return "its free devices are reserved for a pod that preempted others there"
		}
		miss := v.usage.Misses(m.state.podRequest.Request)
		return miss.String()
	case device.WrongModel:
		return "its devices are of model " + messages.Escape(fmt.Sprintf("%q", v.node.Model))
	case device.LargerThanDevice, device.TooLittleMemory:
		return "its devices have " + device.FormatMiB(v.node.MemoryMiB)
	case device.TooFewDevices:
		return fmt.Sprintf("it has %d devices, %d of them cordoned", v.node.Devices, v.node.Cordoned.Len())
	default:
		return "which " + strings.TrimPrefix(reasonText(reason, v.node), "node(s) ")
	}
}
