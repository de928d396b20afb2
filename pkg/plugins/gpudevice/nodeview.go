// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

// scoreSlots is how many scores a view remembers: of so many request shapes in
// turn that arrive interleaved, each is computed once per change of the node.
const scoreSlots = 4

// nodeView is what one NodeInfo says about the devices of its node. Apart from
// the remembered scores it does not change.
//
// It is worth exactly as long as the NodeInfo is unchanged. That is told by:
//
//   - the generation, a number that the framework draws for each change of a
//     NodeInfo and never twice, also for the clones in which preemption removes
//     pods and in which nominated pods are added;
//   - the revision of the node in the allocation cache, because the cycle of a
//     pod group adds pods to the snapshot and keeps the generation: between them
//     there is always a Reserve or Unreserve, which raises the revision;
//   - the revision of the nodes on which a DRA driver publishes devices. Both revisions
//     only grow, so their sum tells of either;
//   - the node object, as a matter of caution.
type nodeView struct {
	generation int64
	revision   uint64
	object     *corev1.Node

	// node is the node object's side, parsed.
	node *device.Node
	// usage is what pods use of them. Only for a shared node it is exact; for one whose
	// devices a device plugin advertises it is good for scores. For others it is
	// meaningless, and hasUsage false.
	usage    device.Usage
	hasUsage bool
	// cachedPods is the number of pods of the NodeInfo that have an allocation in the cache.
	cachedPods int64
	// publishedByDRA is whether a DRA driver publishes devices of the node.
	publishedByDRA bool
	// unrecorded is a pod on a shared node that asks for shares and of which it is
	// not known what it uses.
	unrecorded bool
	// otherInstance is a pod on a shared node to which another scheduler instance gave its
	// share (podAllocation.otherInstance).
	otherInstance bool
	// usedOutsideShares is a pod on a shared node that a device plugin or a DRA driver
	// allocated devices to.
	usedOutsideShares bool
	// sharesHeld is a pod with a share on a node that is not shared.
	sharesHeld bool
	// keptMayCome is whether the node is not shared any more, and a pod that is kept back may
	// still be bound to it with a share.
	keptMayCome bool
	// withoutKept is the usage of a shared node, and nominatedPodWaits, as they would be
	// without the pods that are kept back; nil if there are none.
	withoutKept *nodeView
	// nominatedPodWaits is a nominated pod for which there is no room yet.
	nominatedPodWaits bool
	// cpuFree is in milli-CPU, and may be negative.
	cpuFree int64

	// scores are pairs of a scoreKeys id and a score, packed; see memoScore.
	scores [scoreSlots]atomic.Uint64
}

// view returns what the NodeInfo says, from the node's cell if that still holds.
// A simulation is a NodeInfo that only one call of Filter will see: its view is
// not kept. A view from the cell costs no lock and no memory.
func (pl *GPUDevice) view(nodeInfo fwk.NodeInfo, dryRun bool) *nodeView {
	object := nodeInfo.Node()
	cell := pl.nodes.getOrCreate(object.Name, pl.allocations.nodeStateOf)
	// Read before anything that it covers: what changes meanwhile raises it.
	revision := cell.state.revision.Load() + pl.publishedSlices.revision.Load()
	known := cell.view.Load()
	if known != nil && known.generation == nodeInfo.GetGeneration() && known.revision == revision && known.object == object {
		return known
	}
	v := pl.computeView(nodeInfo, known, cell.state, "")
	v.revision = revision
	if !dryRun {
		cell.view.Store(v)
	}
	return v
}

// viewWithoutPod is view as if the pod were not on the node. It is there already
// when Reserve runs in the cycle of a pod group.
func (pl *GPUDevice) viewWithoutPod(nodeInfo fwk.NodeInfo, uid types.UID) *nodeView {
	for _, podInfo := range nodeInfo.GetPods() {
		if podInfo.GetPod().UID == uid {
			cell := pl.nodes.getOrCreate(nodeInfo.Node().Name, pl.allocations.nodeStateOf)
			return pl.computeView(nodeInfo, cell.view.Load(), cell.state, uid)
		}
	}
	return pl.view(nodeInfo, false)
}

// viewToReserve is viewWithoutPod, and as if also those pods were on the node that hold
// devices there and that the NodeInfo does not show. As a rule there are none, which
// is told by their number. In the cycle of a pod group the NodeInfo shows the members
// that were reserved before, and whom it does not show preemption has taken out of it.
func (pl *GPUDevice) viewToReserve(state fwk.CycleState, nodeInfo fwk.NodeInfo, uid types.UID) *nodeView {
	v := pl.viewWithoutPod(nodeInfo, uid)
	if state.IsPodGroupSchedulingCycle() {
		return v
	}
	cell := pl.nodes.getOrCreate(nodeInfo.Node().Name, pl.allocations.nodeStateOf)
	if v.node.Kind != device.NodeShared || cell.state.numAllocations.Load() == v.cachedPods {
		return v
	}
	notShown := pl.allocations.notShown(nodeInfo, uid)
	if len(notShown) == 0 {
		return v
	}
	v = pl.computeView(nodeInfo, v, cell.state, uid)
	for _, h := range notShown {
		v.addAllocation(h.allocation)
	}
	return v
}

// computeView computes a view. known, if not nil, spares parsing the node object again.
// The pod without is left out.
func (pl *GPUDevice) computeView(nodeInfo fwk.NodeInfo, known *nodeView, state *nodeState, without types.UID) *nodeView {
	object := nodeInfo.Node()
	v := &nodeView{
		generation: nodeInfo.GetGeneration(),
		object:     object,
		cpuFree:    nodeInfo.GetAllocatable().GetMilliCPU() - nodeInfo.GetRequested().GetMilliCPU(),
	}
	v.publishedByDRA = pl.publishedSlices.on(object)
	if known != nil && known.object == object && known.publishedByDRA == v.publishedByDRA {
		v.node = known.node
	} else {
		v.node = pl.parseNode(object, v.publishedByDRA)
	}
	v.usage, v.hasUsage = v.node.Usage()
	if v.node.Kind == device.NodeDevicePlugin && v.hasUsage {
		requested := nodeInfo.GetRequested().GetScalarResources()
		for _, name := range pl.nodeKeys.PluginResources {
			v.usage.AddPluginAllocated(requested[name])
		}
	}
	pl.calculateUsage(v, nodeInfo, state, without)
	return v
}
