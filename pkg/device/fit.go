// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Fits reports whether the devices have room for the request now. It is true
// exactly when Assign succeeds on the same state, with any strategy. It
// allocates nothing.
//
// A pod with one ask, which is nearly every pod, costs one look at each device.
// Several asks are a packing problem; the search is exact within a budget of
// searchBudget steps, and a pod that exceeds it does not fit.
func (s *State) Fits(r *Request) bool {
	switch len(r.Asks) {
	case 0:
		return true
	case 1:
		a := &r.Asks[0]
		share, ok := a.On(s.capacity.MemoryMiB)
		return ok && s.countFitting(share) >= a.Devices
	}
	p, ok := newPlacer(s, r.Asks)
	return ok && p.place(0, &picker{strategy: BestFit{}})
}

// Check is Node.Admits and Fits in one: everything that a filter asks.
func (n *Node) Check(s *State, r *Request) Rejection {
	if rejection := n.Admits(r); rejection != Fits || r.Form != FormShares {
		return rejection
	}
	if !s.Fits(r) {
		return NoRoom
	}
	return Fits
}

// countFitting returns how many devices have room for the share.
func (s *State) countFitting(share Share) int {
	n := 0
	for i := range s.devices {
		if s.free[i].covers(share) && !s.cordoned.Has(i) {
			n++
		}
	}
	return n
}

// Fitting returns the devices that have room for the share.
func (s *State) Fitting(share Share) Set {
	var fit Set
	for i := range s.devices {
		if s.free[i].covers(share) {
			fit = fit.With(i)
		}
	}
	return fit &^ s.cordoned
}

// lowest returns the n lowest indexes of the set, all of them if it has fewer.
func (s Set) lowest(n int) Set {
	var out Set
	for ; n > 0 && s != 0; n-- {
		low := s & -s
		out |= low
		s &^= low
	}
	return out
}
