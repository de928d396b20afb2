// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Assignment says which devices each ask of a Request was given on one node. The
// entries are parallel to Request.Asks; those beyond them are zero.
type Assignment struct {
	// Devices are the devices of each ask.
	Devices [MaxAsks]Set
	// Shares are what each ask was given of every one of its devices.
	Shares [MaxAsks]Share
}

// Holding is what a pod holds of each device of its node, from when it is
// reserved until it has terminated.
type Holding [MaxDevices]Share

// Holding returns what the pod holds of each device: the most that its
// containers use at one time, as for CPU and memory.
//
//	device peak = max( sidecars + main containers,
//	                   each ordinary init container + the sidecars before it )
//
// The peak is taken device by device, and compute and memory each on their own.
// An init container's share is therefore free for the main containers of its own
// pod, and for nobody else's, even after it has ended: the pod may start over.
func (a *Assignment) Holding(asks []Ask) Holding {
	var running, peak Holding
	for i := range asks {
		for d := range a.Devices[i].All() {
			with := running[d].plus(a.Shares[i])
			if asks[i].Kind == Init {
				peak[d] = peak[d].max(with)
			} else {
				running[d] = with
			}
		}
	}
	for d := range peak {
		peak[d] = peak[d].max(running[d])
	}
	return peak
}
