// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

// Filter refuses a node that cannot take the pod. It takes no lock and allocates
// nothing for a node that passes and has not changed since it was looked at last.
//
// A refusal is unresolvable unless evicting pods from the node could help. The
// Status is a fresh one, because the framework writes to it, for several nodes at
// once. Every call counts in the metric, those of preemption's simulations too.
func (pl *GPUDevice) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := readPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	v := pl.view(nodeInfo, s.simulated)
	verdict := v.check(s)
	if verdict == verdictFits {
		return nil
	}
	pl.counters.rejections[verdict].Inc()
	code := fwk.UnschedulableAndUnresolvable
	if verdict.resolvable() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code, verdict.reason(v.node))
}

// verdict is why a node is refused. The set is closed.
type verdict uint8

const (
	verdictFits verdict = iota
	verdictNotShared
	verdictShared
	verdictRefused
	verdictWrongModel
	verdictTooLittleMemory
	verdictLargerThanDevice
	verdictTooFewDevices
	// verdictNoShare and verdictNoMemory are the two sides of device.NoRoom.
	verdictNoShare
	verdictNoMemory
	verdictUnassigned
	// verdictOtherUse is a shared node with a pod that others gave devices to, and
	// verdictSharesHeld a node for such a pod on which shares are held.
	verdictOtherUse
	verdictSharesHeld
	verdictForbidden
	verdicts
)

// verdictOf translates what the model of devices says.
var verdictOf = [...]verdict{
	device.Fits:             verdictFits,
	device.NotShared:        verdictNotShared,
	device.Shared:           verdictShared,
	device.Refused:          verdictRefused,
	device.WrongModel:       verdictWrongModel,
	device.TooLittleMemory:  verdictTooLittleMemory,
	device.LargerThanDevice: verdictLargerThanDevice,
	device.TooFewDevices:    verdictTooFewDevices,
	device.NoRoom:           verdictNoShare,
}

// String returns the verdict as a metric label.
func (r verdict) String() string {
	switch r {
	case verdictNoShare:
		return "NoShare"
	case verdictNoMemory:
		return "NoMemory"
	case verdictUnassigned:
		return "Unassigned"
	case verdictOtherUse:
		return "OtherUse"
	case verdictSharesHeld:
		return "SharesHeld"
	case verdictForbidden:
		return "Forbidden"
	default:
		for rejection, same := range verdictOf {
			if same == r {
				return device.Rejection(rejection).String() //nolint:gosec // an index of a short array
			}
		}
		return "Unknown"
	}
}

// resolvable reports whether evicting pods from the node could help.
func (r verdict) resolvable() bool {
	switch r {
	case verdictNoShare, verdictNoMemory, verdictUnassigned, verdictOtherUse, verdictSharesHeld:
		return true
	default:
		return false
	}
}

// check returns whether the node can take the pod, and if not why. It allocates
// nothing.
func (v *nodeView) check(s *preFilterState) verdict {
	request := s.demand.Request
	if s.forbidden {
		if v.hasDevices() {
			return verdictForbidden
		}
		return verdictFits
	}
	if s.claims {
		// Whatever else the pod asks for: the devices of the claim must not be shared.
		switch {
		case v.node.Kind == device.NodeRefused:
			return verdictRefused
		case v.node.Kind == device.NodeShared:
			return verdictShared
		case v.sharesHeld:
			return verdictSharesHeld
		}
	}
	if rejection := v.node.Admits(request); rejection != device.Fits {
		return verdictOf[rejection]
	}
	switch {
	case request.Form == device.FormNone:
		return verdictFits
	case request.Form != device.FormShares:
		if v.sharesHeld {
			return verdictSharesHeld
		}
		return verdictFits
	case v.unassigned:
		return verdictUnassigned
	case v.otherUse:
		return verdictOtherUse
	}
	if v.crowded {
		return verdictNoShare
	}
	if !v.state.Fits(request) {
		return v.lacking(request)
	}
	return verdictFits
}

// hasDevices reports whether the node has devices that somebody hands out.
func (v *nodeView) hasDevices() bool {
	return v.node.Kind != device.NodeWithoutDevices || v.offered
}

// lacking returns what a node without room has too little of: memory if enough
// devices have the compute, and compute otherwise.
func (v *nodeView) lacking(request *device.Request) verdict {
	for i := range request.Asks {
		ask := &request.Asks[i]
		share, ok := ask.On(v.node.MemoryMiB)
		if !ok {
			return verdictLargerThanDevice
		}
		compute, both := 0, 0
		for d := range v.state.Devices() {
			if v.state.Cordoned().Has(d) || v.state.Free(d).Milli < share.Milli {
				continue
			}
			compute++
			if v.state.Free(d).MemoryMiB >= share.MemoryMiB {
				both++
			}
		}
		if both < ask.Devices && compute >= ask.Devices {
			return verdictNoMemory
		}
	}
	return verdictNoShare
}
