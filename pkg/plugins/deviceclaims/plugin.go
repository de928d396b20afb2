// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "DeviceClaims"

// stockKey is where DynamicResources keeps what it knows of a cycle. kube-scheduler reads
// it by that key, too.
const stockKey fwk.StateKey = pluginnames.DynamicResources

// DeviceClaims is the plugin. See the package comment. What it does not define itself is
// DynamicResources over the real manager. PreFilter and Reserve are called by the goroutine that
// schedules, and by no other.
type DeviceClaims struct {
	*dynamicresources.DynamicResources

	// manager is nil if Kubernetes' feature gate DynamicResourceAllocation is off.
	manager fwk.SharedDRAManager
	// lanes are those that no Filter uses, and front is the one that PreFilter uses.
	lanes  chan *lane
	front  *lane
	slices sliceIndex
	// strategy is nil in tests alone: devices and nodes are then chosen as by DynamicResources.
	strategy device.Strategy
	workload workload
	layouts  layouts
	ranking  candidates.Ranking
	// allocated gathers what of all devices is allocated. lastAllocated is what it returned last, and lastUses
	// how many pods without claims it was used for.
	allocated     func() (*allocatedState, error)
	lastAllocated *allocatedState
	lastUses      int
}

var (
	_ fwk.PreEnqueuePlugin  = &DeviceClaims{}
	_ fwk.PreFilterPlugin   = &DeviceClaims{}
	_ fwk.FilterPlugin      = &DeviceClaims{}
	_ fwk.PostFilterPlugin  = &DeviceClaims{}
	_ fwk.ScorePlugin       = &DeviceClaims{}
	_ fwk.ReservePlugin     = &DeviceClaims{}
	_ fwk.PreBindPlugin     = &DeviceClaims{}
	_ fwk.EnqueueExtensions = &DeviceClaims{}
	_ fwk.SignPlugin        = &DeviceClaims{}
)

// Name returns the name of the plugin.
func (pl *DeviceClaims) Name() string { return Name }

// New builds the plugin, which takes no args: anything but nil is an error. The timeouts of
// DynamicResources are its defaults.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("%s takes no args, got %T", Name, args)
	}
	stock, err := newStock(ctx, handle)
	if err != nil {
		return nil, err
	}
	pl := &DeviceClaims{DynamicResources: stock, strategy: device.FragmentationGradient{}}
	manager := handle.SharedDRAManager()
	if manager == nil || !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return pl, nil
	}
	pl.manager = manager
	pl.allocated = func() (*allocatedState, error) { return gather(ctx, manager.ResourceClaims()) }
	pl.lanes = make(chan *lane, laneCount)
	for range laneCount {
		l, err := newLane(ctx, handle)
		if err != nil {
			return nil, err
		}
		pl.lanes <- l
	}
	if pl.front, err = newLane(ctx, handle); err != nil {
		return nil, err
	}
	return pl, nil
}

// newStock builds DynamicResources as kube-scheduler does, with the defaults of its arguments.
func newStock(ctx context.Context, handle fwk.Handle) (*dynamicresources.DynamicResources, error) {
	defaults, args := &schedulerv1.DynamicResourcesArgs{}, &schedconfig.DynamicResourcesArgs{}
	schedulerscheme.Scheme.Default(defaults)
	if err := schedulerscheme.Scheme.Convert(defaults, args, nil); err != nil {
		return nil, fmt.Errorf("%s: defaults of the arguments of DynamicResources: %w", Name, err)
	}
	built, err := dynamicresources.New(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	stock, ok := built.(*dynamicresources.DynamicResources)
	if !ok {
		return nil, fmt.Errorf("%s: DynamicResources is of type %T", Name, built)
	}
	return stock, nil
}

// laneCount is how many nodes are looked at in parallel: kube-scheduler's default of parallelism.
const laneCount = 16

// PreFilter has DynamicResources look at the pod's claims and, if all of them are to be
// allocated, prepares that for every node. For a pod without claims it prepares Score alone.
func (pl *DeviceClaims) PreFilter(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if candidates.IsDryRun(cs) {
		if s := readState(cs); s != nil {
			// What there is to be found out is in the state.
			pl.writeRanking(cs, s, nodes)
			return nil, s.preFiltered
		}
	}
	claims := pl.claimsToAllocate(cs, pod)
	if claims == nil {
		result, status := pl.DynamicResources.PreFilter(ctx, cs, pod, nodes)
		if status.IsSkip() && pl.manager != nil && pl.strategy != nil {
			pl.preFilterWithoutClaims(ctx, cs, pod, nodes, status)
		}
		return result, status
	}
	pl.front.view = view{state: (&allocatedState{}).of(nil)}
	if result, status := pl.front.stock.PreFilter(ctx, cs, pod, nodes); !status.IsSuccess() {
		return result, status
	}
	allocated, err := pl.allocated()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("reading which devices are allocated: %w", err))
	}
	pl.lastAllocated, pl.lastUses = allocated, 0
	list, err := pl.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("listing ResourceSlices: %w", err))
	}
	pl.slices.update(list)
	s := &cycleState{slices: pl.slices, allocated: allocated, results: map[string]*result{}}
	if pl.strategy != nil {
		s.demand = demandOf(claims)
	}
	if s.demand != nil {
		s.cpuMilli = plugin.CPUMilli(pod)
		s.maxNode = maxNode(nodes)
		pl.learn(s, pod.UID, nodes)
		s.workload = pl.workload.published
	}
	cs.Write(cycleStateKey, s)
	pl.writeRanking(cs, s, nodes)
	return nil, nil
}

// maxUses is for how many pods without claims, one after the other, what is allocated is not read
// anew. It only matters to which of the nodes is best for them, and reading it takes milliseconds in a large cluster.
const maxUses = 64

// preFilterWithoutClaims prepares Score, if there are devices for claims: their nodes are to be kept for pods with
// claims. If that is not possible the pod is placed without it.
func (pl *DeviceClaims) preFilterWithoutClaims(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, skip *fwk.Status) {
	if !pl.updateForPodsWithoutClaims(ctx) {
		if candidates.IsDryRun(cs) {
			candidates.Write(cs, Name, nil)
		}
		return
	}
	s := &cycleState{
		slices: pl.slices, allocated: pl.lastAllocated, withoutClaims: true, preFiltered: skip,
		cpuMilli: plugin.CPUMilli(pod), maxNode: maxNode(nodes), workload: pl.workload.published,
	}
	cs.Write(cycleStateKey, s)
	if candidates.IsDryRun(cs) {
		pl.writeRanking(cs, s, nodes)
	}
}

// updateForPodsWithoutClaims reads the ResourceSlices and, now and then, what is allocated. It returns false if there are no
// devices, or if they cannot be read.
func (pl *DeviceClaims) updateForPodsWithoutClaims(ctx context.Context) bool {
	list, err := pl.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing ResourceSlices failed, the pod is placed without regard to the devices of claims")
	}
	if len(list) == 0 {
		return false
	}
	pl.slices.update(list)
	if pl.lastUses++; pl.lastAllocated != nil && pl.lastUses <= maxUses {
		return true
	}
	allocated, err := pl.allocated()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading which devices are allocated failed, the pod is placed without regard to the devices of claims")
		return false
	}
	pl.lastAllocated, pl.lastUses = allocated, 0
	return true
}

// writeRanking leaves for NodeCandidates how the strategy ranks the nodes. For a pod whose claims have no model, and
// where devices share counters, it leaves nothing: how those nodes are scored only Filter finds out.
func (pl *DeviceClaims) writeRanking(cs fwk.CycleState, s *cycleState, nodes []fwk.NodeInfo) {
	if s.demand != nil && !s.slices.counters || s.withoutClaims {
		candidates.Write(cs, Name, func() *candidates.Ranking { return pl.rank(s, nodes) })
	}
}

// Filter has a lane allocate the pod's claims on the node, from the devices that the
// strategy chooses, or else from all.
func (pl *DeviceClaims) Filter(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	s := readState(cs)
	if s == nil || s.withoutClaims {
		return pl.DynamicResources.Filter(ctx, cs, pod, node)
	}
	visible := s.slices.of(node.Node().Name)
	l := <-pl.lanes
	defer func() { pl.lanes <- l }()
	if p := visible.partitioned(&pl.layouts); p != nil && s.demand != nil {
		return pl.filterPartitioned(ctx, s, p, l, pod, node)
	}
	var status *fwk.Status
	chosen, found := pl.choose(s, visible, node)
	if chosen != nil {
		if found.stock, status = l.allocate(ctx, pod, node, view{slices: chosen, state: s.allocated.of(visible.devices)}); status.IsSuccess() {
			s.keep(node.Node().Name, found)
			return nil
		}
	}
	if found.stock, status = l.allocate(ctx, pod, node, view{slices: visible.slices, state: s.allocated.of(visible.devices)}); status.IsSuccess() {
		s.keep(node.Node().Name, found)
	}
	return status
}

// filterPartitioned has the lane allocate the pod's claims from the devices that cost least.
func (pl *DeviceClaims) filterPartitioned(ctx context.Context, s *cycleState, p *partitions, l *lane, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	visible := s.slices.of(node.Node().Name)
	costs := p.costs(&pl.layouts, visible.devices, s.allocated.AllocatedState)
	data, status := l.allocate(ctx, pod, node, view{slices: p.cheapest(visible.slices, costs, devicesOf(s.demand)), state: s.allocated.of(visible.devices)})
	if !status.IsSuccess() {
		if data, status = l.allocate(ctx, pod, node, view{slices: p.cheapest(visible.slices, costs, 0), state: s.allocated.of(visible.devices)}); !status.IsSuccess() {
			return status
		}
	}
	found, cost := &result{stock: data}, int64(0)
	for _, id := range l.devices(ctx, pod, node.Node().Name, data) {
		if place := slices.Index(visible.devices, id); place >= 0 && costs[place] != unfit {
			cost += costs[place]
			found.profiles = append(found.profiles, p.profileOf(place))
		}
	}
	found.score = max(0, device.MaxGradientScore-max(0, cost))
	s.keep(node.Node().Name, found)
	return nil
}

// Score rates a node by the strategy, where package device has a model of the pod's claims, and
// as DynamicResources does elsewhere.
func (pl *DeviceClaims) Score(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := readState(cs)
	if s == nil {
		return pl.DynamicResources.Score(ctx, cs, pod, node)
	}
	if s.withoutClaims {
		return pl.scoreWithoutClaims(s, node), nil
	}
	found := s.result(node.Node().Name)
	switch {
	case found == nil:
		return 0, nil
	case s.demand != nil:
		return found.score, nil
	default:
		return pl.DynamicResources.Score(ctx, found.stockState(), pod, node)
	}
}

// ScoreExtensions returns the plugin: scores are normalised.
func (pl *DeviceClaims) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore makes an order of the strategy's scores, as GPUDevice does.
func (pl *DeviceClaims) NormalizeScore(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if s := readState(cs); s == nil || s.demand == nil && !s.withoutClaims {
		return pl.DynamicResources.NormalizeScore(ctx, cs, pod, scores)
	}
	candidates.NormalizeScores(scores)
	return nil
}

// Reserve takes the devices that were allocated on the node.
func (pl *DeviceClaims) Reserve(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s := readState(cs)
	if s == nil || s.withoutClaims {
		return pl.DynamicResources.Reserve(ctx, cs, pod, nodeName)
	}
	found := s.result(nodeName)
	if found == nil {
		return fwk.AsStatus(fmt.Errorf("node %s: Filter has not allocated the claims of pod %s there", nodeName, klog.KObj(pod)))
	}
	cs.Write(stockKey, found.stock)
	status := pl.DynamicResources.Reserve(ctx, cs, pod, nodeName)
	if status.IsSuccess() {
		for _, profile := range found.profiles {
			pl.layouts.learn(profile)
		}
	}
	return status
}

// readState returns what PreFilter has left in the cycle; nil if the pod is left to
// DynamicResources.
func readState(cs fwk.CycleState) *cycleState {
	s, err := plugin.ReadState[*cycleState](cs, cycleStateKey)
	if err != nil {
		return nil
	}
	return s
}

// stockState is the state of a cycle with what DynamicResources found on the node.
func (r *result) stockState() fwk.CycleState {
	cs := framework.NewCycleState()
	cs.Write(stockKey, r.stock)
	return cs
}

var errNoState = errors.New("DynamicResources has left nothing in the state of the cycle")
