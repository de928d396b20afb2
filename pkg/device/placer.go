// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// searchBudget is how many containers a search may try to place on one node
// before it gives up. A pod with a handful of shares needs a handful; the bound
// keeps a pod that was made to be hard from holding up the scheduler.
const searchBudget = 2048

// placer assigns the container requests of one pod to the devices of one node.
//
// What runs to the end (sidecars and main containers) shares the devices at one
// time, so that is placed first, by a depth-first search: sidecars in their
// order, then main containers, the largest first. The picker says which device
// is tried first; the others follow in the order of their indexes, so the search
// finds a placement whenever there is one. Whole devices take the lowest free
// indexes: any two untouched devices of a node are alike.
//
// Ordinary init containers never run beside one another or beside main
// containers. Whether they fit depends on the sidecars before them alone, and is
// checked as soon as those are placed. Where they go is decided last: on devices
// where the pod's peak grows least, so that they use what main containers will.
type placer struct {
	free       Usage // before the pod
	left       Usage // beside the sidecars and main containers placed so far
	containers []ContainerRequest
	result     Assignment

	order    [MaxContainers]uint8 // indexes into containers: sidecars, then main containers
	sidecars int                  // how many entries of order are sidecars
	running  int                  // how many entries order has
	budget   int
}

// newPlacer resolves the container requests on the node. It is false if one is larger than a
// device, or there are more than the model holds.
func newPlacer(s *Usage, containers []ContainerRequest) (placer, bool) {
	p := placer{free: *s, left: *s, containers: containers, budget: searchBudget}
	if len(containers) > MaxContainers {
		return p, false
	}
	for i := range containers {
		share, ok := containers[i].On(s.capacity.MemoryMiB)
		if !ok {
			return p, false
		}
		p.result.Shares[i] = share
		if containers[i].Kind == Sidecar {
			p.order[p.running] = uint8(i) //nolint:gosec // below MaxContainers
			p.running++
		}
	}
	p.sidecars = p.running
	for i := range containers {
		if containers[i].Kind == Main {
			p.insertMain(i)
		}
	}
	return p, true
}

// insertMain keeps the main containers in order of size, the largest first and
// equal ones as declared.
func (p *placer) insertMain(container int) {
	at := p.running
	for ; at > p.sidecars; at-- {
		before, share := p.result.Shares[p.order[at-1]], p.result.Shares[container]
		if before.Milli > share.Milli || before.Milli == share.Milli && before.MemoryMiB >= share.MemoryMiB {
			break
		}
		p.order[at] = p.order[at-1]
	}
	p.order[at] = uint8(container) //nolint:gosec // below MaxContainers
	p.running++
}

// place places the containers from position k of the order on.
func (p *placer) place(k int, c *picker) bool {
	if k == p.sidecars && !p.initsFit() {
		return false
	}
	if k == p.running {
		return true
	}
	if p.budget--; p.budget < 0 {
		return false
	}
	container := int(p.order[k])
	share := p.result.Shares[container]
	candidates := p.left.Fitting(share)
	if candidates.Len() < p.containers[container].Devices {
		return false
	}
	if share.Milli == MilliPerDevice {
		return p.try(k, c, candidates.lowest(p.containers[container].Devices))
	}
	first := c.pick(&p.left, candidates, share)
	if p.try(k, c, SetOf(first)) {
		return true
	}
	tried := SetOf(first)
	for d := range candidates.All() {
		if p.alikeTried(d, tried) {
			continue
		}
		if p.try(k, c, SetOf(d)) {
			return true
		}
		tried = tried.With(d)
	}
	return false
}

// try gives the devices to position k of the order and places the rest.
func (p *placer) try(k int, c *picker, devices Set) bool {
	container := p.order[k]
	share := p.result.Shares[container]
	p.result.Devices[container] = devices
	for d := range devices.All() {
		p.left.Take(d, share)
	}
	if p.place(k+1, c) {
		return true
	}
	for d := range devices.All() {
		p.left.Release(d, share)
	}
	p.result.Devices[container] = 0
	return false
}

// alikeTried reports whether device d, or one with the same room, is tried
// already. What is placed later, init containers included, depends on the room
// that is left and not on what took the rest.
func (p *placer) alikeTried(d int, tried Set) bool {
	for e := range tried.All() {
		if p.left.free[d] == p.left.free[e] {
			return true
		}
	}
	return false
}

// initsFit reports whether every ordinary init container has room beside the
// sidecars before it.
func (p *placer) initsFit() bool {
	beside := p.free
	for i := range p.containers {
		switch p.containers[i].Kind {
		case Init:
			if beside.countFitting(p.result.Shares[i]) < p.containers[i].Devices {
				return false
			}
		case Sidecar:
			for d := range p.result.Devices[i].All() {
				beside.Take(d, p.result.Shares[i])
			}
		case Main:
		}
	}
	return true
}

// placeInits gives devices to the ordinary init containers, once the rest is
// placed.
func (p *placer) placeInits(c *picker) {
	held := p.result.PodUsage(p.containers) // no init container has devices yet
	beside := p.free
	for i := range p.containers {
		share := p.result.Shares[i]
		switch p.containers[i].Kind {
		case Init:
			devices := p.devicesForInit(i, &beside, &held, c)
			p.result.Devices[i] = devices
			for d := range devices.All() {
				held[d] = held[d].max(p.free.free[d].minus(beside.free[d]).plus(share))
			}
		case Sidecar:
			for d := range p.result.Devices[i].All() {
				beside.Take(d, share)
			}
		case Main:
		}
	}
}

// devicesForInit chooses the devices of one init container: those where the pod
// already holds the most of what is needed, the picker deciding between equals.
// initsFit has seen that there are enough.
func (p *placer) devicesForInit(container int, beside *Usage, held *PodUsage, c *picker) Set {
	share := p.result.Shares[container]
	candidates := beside.Fitting(share)
	var chosen Set
	for range p.containers[container].Devices {
		var least Share
		var equal Set
		for d := range (candidates &^ chosen).All() {
			used := p.free.free[d].minus(beside.free[d]).plus(share)
			growth := used.minus(held[d]).max(Share{})
			switch {
			case equal == 0, less(growth, least):
				least, equal = growth, SetOf(d)
			case growth == least:
				equal = equal.With(d)
			}
		}
		d := equal.Lowest()
		if least != (Share{}) && share.Milli < MilliPerDevice {
			left := p.free
			left.Add(held)
			d = c.pick(&left, equal, least)
		}
		chosen = chosen.With(d)
	}
	return chosen
}

// less orders amounts by compute, then by memory.
func less(a, b Share) bool {
	return a.Milli < b.Milli || a.Milli == b.Milli && a.MemoryMiB < b.MemoryMiB
}

// Assignment says which devices each container of a Request was given on one node. The
// entries are parallel to Request.Containers; those beyond them are zero.
type Assignment struct {
	// Devices are the devices of each container.
	Devices [MaxContainers]Set
	// Shares are what each container was given of every one of its devices.
	Shares [MaxContainers]Share
}

// PodUsage returns what the pod holds of each device: the most that its
// containers use at one time, as for CPU and memory.
//
//	device peak = max( sidecars + main containers,
//	                   each ordinary init container + the sidecars before it )
//
// The peak is taken device by device, and compute and memory each on their own.
// An init container's share is therefore free for the main containers of its own
// pod, and for nobody else's, even after it has ended: the pod may start over.
func (a *Assignment) PodUsage(containers []ContainerRequest) PodUsage {
	var running, peak PodUsage
	for i := range containers {
		for d := range a.Devices[i].All() {
			with := running[d].plus(a.Shares[i])
			if containers[i].Kind == Init {
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
