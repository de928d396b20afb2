// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// pool names a pool of devices. A driver's pools have different names.
type pool struct{ driver, name string }

// sliceIndex has the ResourceSlices by node. Who has a copy of it keeps it as it is: update makes new maps.
type sliceIndex struct {
	// known are those of the list that the index was built from.
	known sets.Set[*resourcev1.ResourceSlice]
	nodes map[string]*nodeSlices
	// global is what a node sees that has no ResourceSlice of its own.
	global *nodeSlices
	// counters is whether any slice has counters.
	counters bool
}

// nodeSlices are whole pools, those with a ResourceSlice for the node or for more than one
// node, by name: whether a pool is complete depends on all of its slices.
type nodeSlices struct {
	slices []*resourcev1.ResourceSlice
	// devices are those of the slices, in their order.
	devices []structured.DeviceID
	// model is that of the devices, or partitions are; each built when it is asked for first.
	once           sync.Once
	model          *nodeModel
	partitionsOnce sync.Once
	partitions     *partitions
}

// of returns what a node sees of the ResourceSlices.
func (x *sliceIndex) of(node string) *nodeSlices {
	if n, ok := x.nodes[node]; ok {
		return n
	}
	return x.global
}

// modelled returns the model of the devices, nil if there is none.
func (n *nodeSlices) modelled() *nodeModel {
	n.once.Do(func() { n.model = newNodeModel(n.slices) })
	return n.model
}

// partitioned returns the partitions of the devices, nil if they are not such.
func (n *nodeSlices) partitioned(all *layouts) *partitions {
	n.partitionsOnce.Do(func() {
		if n.hasCounters() {
			n.partitions = newPartitions(n.slices, all)
		}
	})
	return n.partitions
}

func (n *nodeSlices) hasCounters() bool {
	return slices.ContainsFunc(n.slices, func(s *resourcev1.ResourceSlice) bool { return len(s.Spec.SharedCounters) > 0 })
}

// update builds the index from the list, unless it was built from the same ResourceSlices. An object in
// a list never changes, because an update is a new object. The order of the list has no meaning.
func (x *sliceIndex) update(list []*resourcev1.ResourceSlice) {
	if x.nodes != nil && len(list) == x.known.Len() && x.known.HasAll(list...) {
		return
	}
	x.known = sets.New(list...)
	x.counters = slices.ContainsFunc(list, func(s *resourcev1.ResourceSlice) bool { return len(s.Spec.SharedCounters) > 0 })
	byPool := map[pool][]*resourcev1.ResourceSlice{}
	nodesOf := map[pool]sets.Set[string]{}
	global := sets.New[pool]()
	for _, slice := range list {
		p := pool{slice.Spec.Driver, slice.Spec.Pool.Name}
		byPool[p] = append(byPool[p], slice)
		switch {
		case slice.Spec.NodeName != nil && *slice.Spec.NodeName != "":
			if nodesOf[p] == nil {
				nodesOf[p] = sets.New[string]()
			}
			nodesOf[p].Insert(*slice.Spec.NodeName)
		default:
			global.Insert(p)
		}
	}
	var everywhere []*resourcev1.ResourceSlice
	for p := range global {
		everywhere = append(everywhere, byPool[p]...)
	}
	own := map[string][]*resourcev1.ResourceSlice{}
	for p, nodes := range nodesOf {
		if global.Has(p) {
			continue
		}
		for node := range nodes {
			own[node] = append(own[node], byPool[p]...)
		}
	}
	former := x.nodes
	x.nodes, x.global = make(map[string]*nodeSlices, len(own)), newNodeSlices(everywhere, x.global)
	for node, list := range own {
		x.nodes[node] = newNodeSlices(append(list, everywhere...), former[node])
	}
}

// newNodeSlices returns former if it has the same slices, with what is known of them.
func newNodeSlices(list []*resourcev1.ResourceSlice, former *nodeSlices) *nodeSlices {
	slices.SortFunc(list, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	if former != nil && slices.Equal(former.slices, list) {
		return former
	}
	n := &nodeSlices{slices: list}
	for _, slice := range list {
		for d := range slice.Spec.Devices {
			n.devices = append(n.devices, structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[d].Name))
		}
	}
	return n
}

// allocatedState is what of all devices is allocated. It does not change.
type allocatedState struct {
	*structured.AllocatedState

	// shares are those of a device that claims share.
	shares map[structured.DeviceID][]structured.SharedDeviceID
}

// gatherTimeout is how long DynamicResources waits for claims that change while they are read.
const gatherTimeout = 5 * time.Second

// gather reads what is allocated. Claims may change meanwhile; then it reads again.
func gather(ctx context.Context, claims fwk.ResourceClaimTracker) (*allocatedState, error) {
	s := &allocatedState{}
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Microsecond, gatherTimeout, true, func(context.Context) (bool, error) {
		if utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity) {
			s.AllocatedState, last = claims.GatherAllocatedState()
			return last == nil, nil
		}
		var devices sets.Set[structured.DeviceID]
		devices, last = claims.ListAllAllocatedDevices()
		s.AllocatedState = &structured.AllocatedState{AllocatedDevices: devices}
		return last == nil, nil
	})
	if last != nil {
		return nil, last
	}
	if err != nil {
		return nil, err
	}
	if len(s.AllocatedSharedDeviceIDs) > 0 {
		s.shares = make(map[structured.DeviceID][]structured.SharedDeviceID, len(s.AggregatedCapacity))
	}
	for id := range s.AllocatedSharedDeviceIDs {
		of := id.GetDeviceID()
		s.shares[of] = append(s.shares[of], id)
	}
	return s, nil
}

// of returns what of the devices is allocated, as an allocator takes it. It is the caller's.
func (s *allocatedState) of(devices []structured.DeviceID) *structured.AllocatedState {
	local := &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	if s.AllocatedState == nil {
		return local
	}
	for _, id := range devices {
		if s.AllocatedDevices.Has(id) {
			local.AllocatedDevices.Insert(id)
		}
		local.AllocatedSharedDeviceIDs.Insert(s.shares[id]...)
		if consumed, ok := s.AggregatedCapacity[id]; ok {
			local.AggregatedCapacity[id] = consumed.Clone()
		}
	}
	return local
}
