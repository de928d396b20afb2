// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Miss is what the devices of a node lack for a request that they have no room for now.
type Miss struct {
	// Container is the container for which most is missing, Asked what it takes of each
	// device, and Devices of how many; empty and zero if each container has room for
	// itself, and not all of them together.
	Container string
	Asked     Share
	Devices   int
	// Device is the device that comes nearest to Asked, -1 if all are cordoned, and Free
	// what is left of it, at least zero.
	Device int
	Free   Share
	// Fitting is how many devices have room for Asked, of Total.
	Fitting, Total int
	// Gap is how much is missing, in devices: more than 0.
	Gap float64
	// milliDerived and memoryDerived say which of Asked was not asked for, and follows from
	// the other.
	milliDerived, memoryDerived bool
}

// leastGap is the gap where nothing is missing but an order in which all containers fit.
const leastGap = 1.0 / MilliPerDevice

// Misses returns what is missing for the request. It is of use only where Fits is false,
// and allocates nothing.
func (u *Usage) Misses(r *Request) Miss {
	worst := Miss{Device: -1, Total: u.devices, Gap: leastGap}
	for i := range r.Containers {
		c := &r.Containers[i]
		share, ok := c.On(u.capacity.MemoryMiB)
		if !ok {
			share = Share{Milli: MilliPerDevice, MemoryMiB: c.MemoryMiB}
		}
		fitting := u.countFitting(share)
		if fitting >= c.Devices {
			continue
		}
		device, gap := u.Nearest(share)
		if c.Devices > 1 {
			gap = float64(c.Devices - fitting)
		}
		if worst.Devices > 0 && gap <= worst.Gap {
			continue
		}
		worst = Miss{
			Container: c.Container, Asked: share, Devices: c.Devices, Device: device, Fitting: fitting, Total: u.devices, Gap: gap,
			milliDerived: c.Milli == 0, memoryDerived: c.MemoryMiB == 0,
		}
		if device >= 0 {
			worst.Free = u.free[device].max(Share{})
		}
	}
	return worst
}

// Nearest returns the device that comes nearest to having room for the share, -1 if all are
// cordoned, and how much of a device is missing there; 0 if nothing is.
func (u *Usage) Nearest(share Share) (device int, gap float64) {
	device, gap = -1, 2
	for i := range u.devices {
		if !u.usable(i) {
			continue
		}
		free := u.free[i].max(Share{})
		missing := float64(max(0, share.Milli-free.Milli)) / MilliPerDevice
		missing = max(missing, float64(max(0, share.MemoryMiB-free.MemoryMiB))/float64(max(1, u.capacity.MemoryMiB)))
		if missing < gap {
			device, gap = i, missing
		}
	}
	return device, gap
}

// String says what is missing, as in "device 2 has 800m free, and the pod requests 1000m".
func (m *Miss) String() string {
	switch {
	case m.Devices == 0:
		return "its devices have room for each container, not for all at once"
	case m.Devices > 1:
		return fmt.Sprintf("%d of its %d devices are free, and the pod requests %d", m.Fitting, m.Total, m.Devices)
	case m.Device < 0:
		return "all its devices are cordoned"
	}
	milli, memory := m.Free.Milli < m.Asked.Milli, m.Free.MemoryMiB < m.Asked.MemoryMiB
	if milli && memory {
		// What follows from the other is no news.
		milli, memory = !m.milliDerived, !m.memoryDerived
	}
	text := func(s Share) string {
		switch {
		case !memory:
			return fmt.Sprintf("%dm", s.Milli)
		case !milli:
			return FormatMiB(s.MemoryMiB)
		}
		return fmt.Sprintf("%dm and %s", s.Milli, FormatMiB(s.MemoryMiB))
	}
	return fmt.Sprintf("device %d has %s free, and the pod requests %s", m.Device, text(m.Free), text(m.Asked))
}

// FormatMiB writes an amount of device memory, in MiB, as Kubernetes writes it: 40Gi,
// 1536Mi, 0.
func FormatMiB(mebibytes int64) string {
	return resource.NewQuantity(mebibytes*bytesPerMiB, resource.BinarySI).String()
}
