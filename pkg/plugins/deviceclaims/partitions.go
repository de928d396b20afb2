// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// maxPartitions is how many devices can share the counters of a GPU in a model: one bit each.
const maxPartitions = 64

// partitions are the devices of a node that share counters, as the placements of MIG profiles do. The value of a
// GPU is what its counters still admit of the profiles that are expected, and a device costs what the value loses.
type partitions struct {
	gpus []partitionedGPU
	// device is where a device is by its place in nodeSlices.devices: the GPU, and the bit there.
	device []partition
}

type partition struct{ gpu, bit int }

type partitionedGPU struct {
	layout *layout
	// places are those in nodeSlices.devices, by bit.
	places []int
}

// layout is which devices the counters of a GPU can be divided into. GPUs of one model have the same.
type layout struct {
	total []int64
	// consumes is what each device takes of each counter, and profile which of profiles it is a placement of.
	consumes [][]int64
	profile  []int
	profiles []profile

	mu sync.Mutex
	// costs of the devices are by which are allocated, and of the epoch.
	costs map[uint64][]int64
	epoch uint64
}

// profile is devices that take equal amounts of equal counters, wherever they begin.
type profile struct {
	key string
	// size is the mean part of the counters that one takes, of partScale.
	size int64
}

const partScale = 1 << 20

// maxCosts bounds the memory of a layout, half a megabyte, and maxLayouts that of all.
const (
	maxCosts   = 1024
	maxLayouts = 64
)

// countersOf returns the counter sets by name; none if the slices are not one pool of the node.
func countersOf(list []*resourcev1.ResourceSlice) map[string]map[string]resourcev1.Counter {
	counters := map[string]map[string]resourcev1.Counter{}
	for _, slice := range list {
		if slice.Spec.Driver != list[0].Spec.Driver || slice.Spec.Pool != list[0].Spec.Pool || slice.Spec.NodeName == nil {
			return nil
		}
		for _, set := range slice.Spec.SharedCounters {
			counters[set.Name] = set.Counters
		}
	}
	return counters
}

// newPartitions returns nil if the devices are not of that kind.
func newPartitions(list []*resourcev1.ResourceSlice, layouts *layouts) *partitions {
	counters := countersOf(list)
	p := &partitions{}
	var sets []string
	bySet := map[string][]*resourcev1.Device{}
	for _, slice := range list {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if len(d.ConsumesCounters) != 1 || d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
				return nil
			}
			set := d.ConsumesCounters[0].CounterSet
			at := slices.Index(sets, set)
			if at < 0 {
				at, sets = len(sets), append(sets, set)
				p.gpus = append(p.gpus, partitionedGPU{})
			}
			p.device = append(p.device, partition{at, len(bySet[set])})
			p.gpus[at].places = append(p.gpus[at].places, len(p.device)-1)
			bySet[set] = append(bySet[set], d)
		}
	}
	for at, set := range sets {
		if len(bySet[set]) > maxPartitions || counters[set] == nil {
			return nil
		}
		if p.gpus[at].layout = layouts.of(counters[set], bySet[set]); p.gpus[at].layout == nil {
			return nil
		}
	}
	return p
}

// layouts are those of all nodes, each once.
type layouts struct {
	mu    sync.Mutex
	known map[string]*layout
	// expected counts the profiles that claims got, by key, and epoch how often what is expected has changed.
	expected map[string]int64
	count    int64
	epoch    uint64
}

// of returns the layout with these counters and devices; nil if there are too many counters, or a device takes
// one that is not there, or more than there is.
func (all *layouts) of(counters map[string]resourcev1.Counter, devices []*resourcev1.Device) *layout {
	names := slices.Sorted(maps.Keys(counters))
	if len(names) > maxCounters {
		return nil
	}
	l := &layout{costs: map[uint64][]int64{}}
	for _, name := range names {
		value := counters[name].Value
		l.total = append(l.total, value.Value())
	}
	index := map[string]int{}
	for _, d := range devices {
		consumes, parts := make([]int64, len(names)), []string{}
		var size float64
		for name, counter := range d.ConsumesCounters[0].Counters {
			i, ok := slices.BinarySearch(names, name)
			amount := counter.Value.Value()
			if !ok || amount < 0 || amount > l.total[i] {
				return nil
			}
			consumes[i] = amount
			if consumes[i] > 0 {
				size += float64(consumes[i]) / float64(l.total[i])
				parts = append(parts, fmt.Sprintf("%s=%d", strings.TrimRight(name, "0123456789"), consumes[i]))
			}
		}
		slices.Sort(parts)
		key := strings.Join(parts, ",")
		at, ok := index[key]
		if !ok {
			at = len(l.profiles)
			index[key] = at
			l.profiles = append(l.profiles, profile{key: key, size: int64(partScale * size / float64(len(names)))})
		}
		l.consumes, l.profile = append(l.consumes, consumes), append(l.profile, at)
	}
	key := fmt.Sprint(l.total, l.consumes)
	all.mu.Lock()
	defer all.mu.Unlock()
	if known := all.known[key]; known != nil {
		return known
	}
	if len(all.known) >= maxLayouts || all.known == nil {
		all.known = map[string]*layout{}
	}
	all.known[key] = l
	return l
}

// learn counts the profile of a device that a claim got.
func (all *layouts) learn(key string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.expected) >= maxLayouts*maxPartitions || all.expected == nil {
		all.expected = map[string]int64{}
	}
	all.expected[key]++
	// Every change makes all remembered costs worthless.
	if all.count++; all.count&(all.count-1) == 0 || all.count%256 == 0 {
		all.epoch++
	}
}

// expectedOf returns how much each profile of the layout is expected: once, and as often as it was counted.
func (all *layouts) expectedOf(l *layout) (weights []int64, epoch uint64) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, p := range l.profiles {
		weights = append(weights, 1+all.expected[p.key])
	}
	return weights, all.epoch
}

// leftover is how many hundredths of the part of a GPU that is left free are added to the cost: best-fit, for what is alike
// otherwise. FragmentationGradient has the same.
const leftover = 3

// unfit is what a device costs that is allocated, or for which the counters do not suffice.
const unfit = math.MaxInt64

// costsOf returns what each device costs, in 1/partScale of what the GPU is worth if nothing of it is allocated. It must not be changed.
func (l *layout) costsOf(all *layouts, allocated uint64) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	weights, epoch := all.expectedOf(l)
	if l.epoch != epoch || len(l.costs) >= maxCosts {
		clear(l.costs)
		l.epoch = epoch
	}
	costs := l.costs[allocated]
	if costs == nil {
		most := max(1, l.value(0, weights))
		before := l.value(allocated, weights)
		free := l.free(allocated)
		costs = make([]int64, len(l.consumes))
		for bit := range l.consumes {
			if costs[bit] = unfit; allocated&(1<<bit) == 0 && l.fits(&free, bit) {
				after := allocated | 1<<bit
				costs[bit] = partScale*(before-l.value(after, weights))/most + leftover*l.freePart(after)/100
			}
		}
		l.costs[allocated] = costs
	}
	return costs
}

// value is the mean part of the GPU that the expected profiles could still get, each by itself: as many of it as fit,
// one after the other.
func (l *layout) value(allocated uint64, weights []int64) int64 {
	free := l.free(allocated)
	var sum, total int64
	for p := range l.profiles {
		left := free
		fit := int64(0)
		for bit := range l.consumes {
			if l.profile[bit] == p && allocated&(1<<bit) == 0 && l.fits(&left, bit) {
				l.take(&left, bit)
				fit++
			}
		}
		sum += weights[p] * fit * l.profiles[p].size
		total += weights[p]
	}
	return sum / max(1, total)
}

// maxCounters is how many counters a GPU can have in a model.
const maxCounters = 64

// free is what is left of the counters.
func (l *layout) free(allocated uint64) (free [maxCounters]int64) {
	copy(free[:], l.total)
	for bit := range l.consumes {
		if allocated&(1<<bit) != 0 {
			l.take(&free, bit)
		}
	}
	return free
}

// freePart is the mean part of the counters that is left, of partScale.
func (l *layout) freePart(allocated uint64) int64 {
	free := l.free(allocated)
	var sum float64
	for i, total := range l.total {
		if total > 0 {
			sum += float64(free[i]) / float64(total)
		}
	}
	return int64(partScale * sum / float64(max(1, len(l.total))))
}

func (l *layout) fits(free *[maxCounters]int64, bit int) bool {
	for i, amount := range l.consumes[bit] {
		if amount > free[i] {
			return false
		}
	}
	return true
}

func (l *layout) take(free *[maxCounters]int64, bit int) {
	for i, amount := range l.consumes[bit] {
		free[i] -= amount
	}
}

// costs returns what each device costs, by its place in nodeSlices.devices.
func (p *partitions) costs(all *layouts, devices []structured.DeviceID, allocated *structured.AllocatedState) []int64 {
	costs := make([]int64, len(devices))
	for i := range p.gpus {
		gpu := &p.gpus[i]
		var mask uint64
		for bit, place := range gpu.places {
			if allocated.AllocatedDevices.Has(devices[place]) {
				mask |= 1 << bit
			}
		}
		for bit, cost := range gpu.layout.costsOf(all, mask) {
			costs[gpu.places[bit]] = cost
		}
	}
	return costs
}

// cheapest returns copies of the slices with so many free devices of each profile, the cheapest ones, and those that are
// allocated: they consume counters. A count of 0 is for all devices. The devices come in the order of what they cost, all in
// the first slice that has any. All slices stay, or the pool would be incomplete.
func (p *partitions) cheapest(list []*resourcev1.ResourceSlice, costs []int64, count int) []*resourcev1.ResourceSlice {
	order := make([]int, len(costs))
	devices := make([]*resourcev1.Device, 0, len(costs))
	for _, slice := range list {
		for i := range slice.Spec.Devices {
			order[len(devices)] = len(devices)
			devices = append(devices, &slice.Spec.Devices[i])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	shown, ofProfile := make([]resourcev1.Device, 0, 16), map[string]int{}
	for _, place := range order {
		if count > 0 && costs[place] != unfit {
			profile := p.profileOf(place)
			if ofProfile[profile]++; ofProfile[profile] > count {
				continue
			}
		}
		shown = append(shown, *devices[place])
	}
	left := make([]*resourcev1.ResourceSlice, 0, len(list))
	for _, slice := range list {
		changed := *slice
		if len(slice.Spec.Devices) > 0 {
			changed.Spec.Devices, shown = shown, nil
		}
		left = append(left, &changed)
	}
	return left
}

// profileOf returns the key of the profile of a device, by its place in nodeSlices.devices.
func (p *partitions) profileOf(place int) string {
	at := p.device[place]
	l := p.gpus[at.gpu].layout
	return l.profiles[l.profile[at.bit]].key
}
