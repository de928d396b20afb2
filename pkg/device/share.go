// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

const (
	// MilliPerDevice is what one device has to give, in thousandths of itself.
	MilliPerDevice = 1000
	// MaxDevices is how many devices of one node the model can hold. It bounds
	// every array of this package, which is what keeps the hot path free of
	// allocations.
	MaxDevices = 16
	// MaxAsks is how many containers of one pod may ask for shares.
	MaxAsks = 16
	// MaxMemoryMiB is the largest device memory that is believed, 1 PiB. It keeps
	// every sum of recorded shares far from the limits of int64.
	MaxMemoryMiB = 1 << 30
)

// Share is an amount of one device. Compute and memory are counted side by side
// and neither pays for the other.
type Share struct {
	// Milli is in thousandths of the device.
	Milli int64
	// MemoryMiB is in MiB of device memory.
	MemoryMiB int64
}

// plus returns the sum of both.
func (a Share) plus(b Share) Share {
	return Share{Milli: a.Milli + b.Milli, MemoryMiB: a.MemoryMiB + b.MemoryMiB}
}

// minus returns what is left of a; it may be negative.
func (a Share) minus(b Share) Share {
	return Share{Milli: a.Milli - b.Milli, MemoryMiB: a.MemoryMiB - b.MemoryMiB}
}

// covers reports whether a is at least b in both dimensions.
func (a Share) covers(b Share) bool {
	return a.Milli >= b.Milli && a.MemoryMiB >= b.MemoryMiB
}

// max returns the larger of both, dimension by dimension, as a pod's effective
// request is taken for CPU and memory.
func (a Share) max(b Share) Share {
	return Share{Milli: max(a.Milli, b.Milli), MemoryMiB: max(a.MemoryMiB, b.MemoryMiB)}
}
