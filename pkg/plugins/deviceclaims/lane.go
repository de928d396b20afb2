// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/berth-scheduler/berth/pkg/compat"
)

// view is what a lane sees of the cluster.
type view struct {
	slices []*resourcev1.ResourceSlice
	state  *structured.AllocatedState
}

// lane is an instance of DynamicResources that allocates from a view. It is for one
// goroutine at a time.
type lane struct {
	view

	stock *dynamicresources.DynamicResources
	// reserved are the claims that the last call of devices has allocated.
	reserved []*resourcev1.ResourceClaim
}

func newLane(ctx context.Context, handle fwk.Handle) (*lane, error) {
	l := &lane{}
	stock, err := newStock(ctx, &laneHandle{Handle: handle, manager: &laneManager{SharedDRAManager: handle.SharedDRAManager(), lane: l}})
	if err != nil {
		return nil, err
	}
	l.stock = stock
	return l, nil
}

// allocate runs PreFilter and Filter of DynamicResources for one node over the view, and returns
// what Reserve has to find in the state of the cycle.
func (l *lane) allocate(ctx context.Context, pod *corev1.Pod, node fwk.NodeInfo, v view) (fwk.StateData, *fwk.Status) {
	l.view = v
	cs := framework.NewCycleState()
	if _, status := l.stock.PreFilter(ctx, cs, pod, nil); !status.IsSuccess() {
		if status.Code() == fwk.Skip { // the claims are gone since PreFilter of the cycle
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod's claims have changed")
		}
		return nil, status
	}
	if status := l.stock.Filter(ctx, cs, pod, node); !status.IsSuccess() {
		return nil, status
	}
	data, err := cs.Read(stockKey)
	if err != nil {
		return nil, fwk.AsStatus(errNoState)
	}
	return data, nil
}

// devices returns those of an allocation: Reserve would tell them to the manager.
func (l *lane) devices(ctx context.Context, pod *corev1.Pod, node string, data fwk.StateData) []structured.DeviceID {
	l.reserved = l.reserved[:0]
	cs := framework.NewCycleState()
	cs.Write(stockKey, data)
	if !l.stock.Reserve(ctx, cs, pod, node).IsSuccess() {
		return nil
	}
	var devices []structured.DeviceID
	for _, claim := range l.reserved {
		for i := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[i]
			devices = append(devices, structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return devices
}

// laneHandle is the framework's handle, with the lane's manager.
type laneHandle struct {
	fwk.Handle

	manager *laneManager
}

// SharedDRAManager returns the lane's manager.
func (h *laneHandle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

// SharedInformerFactory returns one to which no index is added: the instance with the real
// manager has added the same one, which nothing in a lane asks.
func (h *laneHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return withoutIndexers{h.Handle.SharedInformerFactory()}
}

type withoutIndexers struct {
	informers.SharedInformerFactory
}

// Core implements informers.SharedInformerFactory.
func (f withoutIndexers) Core() core.Interface {
	return coreWithoutIndexers{f.SharedInformerFactory.Core()}
}

type coreWithoutIndexers struct{ core.Interface }

// V1 implements core.Interface.
func (f coreWithoutIndexers) V1() informersv1.Interface { return v1WithoutIndexers{f.Interface.V1()} }

type v1WithoutIndexers struct{ informersv1.Interface }

// Pods implements the informers of the core group.
func (f v1WithoutIndexers) Pods() compat.PodInformer { return podsWithoutIndexers{f.Interface.Pods()} }

type podsWithoutIndexers struct{ compat.PodInformer }

// Informer implements the informer of pods.
func (f podsWithoutIndexers) Informer() cache.SharedIndexInformer {
	return informerWithoutIndexers{f.PodInformer.Informer()}
}

type informerWithoutIndexers struct{ cache.SharedIndexInformer }

// AddIndexers adds none.
func (informerWithoutIndexers) AddIndexers(cache.Indexers) error { return nil }

// laneManager is the real manager, but for the ResourceSlices and what is allocated of
// them. PreFilter, Filter and Reserve of DynamicResources change nothing through it.
type laneManager struct {
	fwk.SharedDRAManager

	lane *lane
}

// ResourceSlices returns the lister of the view.
func (m *laneManager) ResourceSlices() fwk.ResourceSliceLister { return m }

// ListWithDeviceTaintRules returns the ResourceSlices of the view.
func (m *laneManager) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return m.lane.slices, nil
}

// ResourceClaims returns the tracker of the view.
func (m *laneManager) ResourceClaims() fwk.ResourceClaimTracker {
	return laneClaims{ResourceClaimTracker: m.SharedDRAManager.ResourceClaims(), lane: m.lane}
}

type laneClaims struct {
	fwk.ResourceClaimTracker

	lane *lane
}

// List returns none. DynamicResources lists the claims of all pods for those alone that it
// makes itself for extended resources, and such pods do not come here.
func (laneClaims) List() ([]*resourcev1.ResourceClaim, error) { return nil, nil }

// SignalClaimPendingAllocation keeps the claim to itself.
func (c laneClaims) SignalClaimPendingAllocation(_ types.UID, claim *resourcev1.ResourceClaim) error {
	c.lane.reserved = append(c.lane.reserved, claim)
	return nil
}

// ListAllAllocatedDevices returns those of the view.
func (c laneClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return c.lane.state.AllocatedDevices, nil
}

// GatherAllocatedState returns that of the view.
func (c laneClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return c.lane.state, nil
}
