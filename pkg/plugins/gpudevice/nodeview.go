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
//   - the revision of the ledger's marks for the node, because the cycle of a
//     pod group adds pods to the snapshot and keeps the generation: between them
//     there is always a Reserve or Unreserve, which raises the revision;
//   - the node object, as a matter of caution.
type nodeView struct {
	generation int64
	revision   uint64
	object     *corev1.Node

	// node is the node object's side, parsed.
	node *device.Node
	// state is what is free. Only for a shared node it is exact; for one whose
	// devices a device plugin hands out it is good for scores. For others it is
	// meaningless, and scorable false.
	state    device.State
	scorable bool
	// unassigned is a pod on a shared node that asks for shares and of which it is
	// not known what it uses.
	unassigned bool
	// crowded is a nominated pod for which there is no room yet.
	crowded bool
	// cpuFree is in milli-CPU, and may be negative.
	cpuFree int64

	// scores are pairs of a scoreKeys id and a score, packed; see memoScore.
	scores [scoreSlots]atomic.Uint64
}

// view returns what the NodeInfo says, from the node's cell if that still holds.
// A simulation is a NodeInfo that only one call of Filter will see: its view is
// not kept. A view from the cell costs no lock and no memory.
func (pl *GPUDevice) view(nodeInfo fwk.NodeInfo, simulated bool) *nodeView {
	object := nodeInfo.Node()
	cell := pl.nodes.getOrCreate(object.Name, pl.ledger.marksOf)
	// Read before anything that it covers: what changes meanwhile raises it.
	revision := cell.marks.revision.Load()
	known := cell.view.Load()
	if known != nil && known.generation == nodeInfo.GetGeneration() && known.revision == revision && known.object == object {
		return known
	}
	v := pl.look(nodeInfo, known, cell.marks, "")
	v.revision = revision
	if !simulated {
		cell.view.Store(v)
	}
	return v
}

// viewWithout is view as if the pod were not on the node. It is there already
// when Reserve runs in the cycle of a pod group.
func (pl *GPUDevice) viewWithout(nodeInfo fwk.NodeInfo, uid types.UID) *nodeView {
	for _, podInfo := range nodeInfo.GetPods() {
		if podInfo.GetPod().UID == uid {
			cell := pl.nodes.getOrCreate(nodeInfo.Node().Name, pl.ledger.marksOf)
			return pl.look(nodeInfo, cell.view.Load(), cell.marks, uid)
		}
	}
	return pl.view(nodeInfo, false)
}

// look computes a view. known, if not nil, spares parsing the node object again.
// The pod without is left out.
func (pl *GPUDevice) look(nodeInfo fwk.NodeInfo, known *nodeView, marks *nodeMarks, without types.UID) *nodeView {
	object := nodeInfo.Node()
	v := &nodeView{
		generation: nodeInfo.GetGeneration(),
		object:     object,
		cpuFree:    nodeInfo.GetAllocatable().GetMilliCPU() - nodeInfo.GetRequested().GetMilliCPU(),
	}
	if known != nil && known.object == object {
		v.node = known.node
	} else {
		v.node = device.ParseNode(object, pl.nodeKeys)
	}
	switch v.node.Kind {
	case device.NodeShared:
		v.scorable = true
		v.state = v.node.State()
		pl.takePods(v, nodeInfo, marks, without)
	case device.NodeDevicePlugin:
		var used int64
		requested := nodeInfo.GetRequested().GetScalarResources()
		for _, name := range pl.deviceResources {
			used += requested[name]
		}
		v.state, v.scorable = v.node.PluginState(used)
	case device.NodeWithoutDevices, device.NodeRefused:
	}
	return v
}

// takePods takes from the state what the pods hold: those in the NodeInfo, and
// those that only the ledger knows to be there, perhaps.
func (pl *GPUDevice) takePods(v *nodeView, nodeInfo fwk.NodeInfo, marks *nodeMarks, without types.UID) {
	orphans := marks.orphans.Load()
	var nominated []*corev1.Pod
	for _, podInfo := range nodeInfo.GetPods() {
		pod := podInfo.GetPod()
		if pod.UID == without || !asksForShares(pod) || isTerminated(pod) {
			continue
		}
		holding, known := pl.ledger.holdingOf(pod, v.object.Name)
		switch {
		case known && holding == nil:
			v.unassigned = true
		case known && orphans.has(pod.UID):
			// Counted below.
		case known:
			v.state.TakeAll(holding)
		case pod.Spec.NodeName == "":
			nominated = append(nominated, pod)
		default:
			v.unassigned = true
		}
	}
	for _, orphan := range orphans.all() {
		if orphan.pod.UID != without {
			v.state.TakeAll(&orphan.holding)
		}
	}
	pl.takeNominated(v, nominated)
}

// takeNominated takes what nominated pods will hold. They have no devices yet, and
// are given some as Reserve would, so that nobody of lower priority is given the
// last ones; which ones does not matter to the question whether another pod fits.
func (pl *GPUDevice) takeNominated(v *nodeView, nominated []*corev1.Pod) {
	for _, pod := range nominated {
		request, err := device.ParsePod(pod, pl.deviceResources)
		if err != nil || request.Form != device.FormShares {
			continue
		}
		packed := device.Policy{Strategy: device.BestFit}
		assignment, ok := packed.Assign(device.Site{State: &v.state}, device.Demand{Request: request})
		if !ok {
			// Its victims are still here.
			v.crowded = true
			continue
		}
		holding := assignment.Holding(request.Asks)
		v.state.TakeAll(&holding)
	}
}

// asksForShares reports whether a container of the pod has a limit of ours. It
// is what every pod on every changed node is asked, so it does not parse.
func asksForShares(pod *corev1.Pod) bool {
	return anyAsksForShares(pod.Spec.Containers) || anyAsksForShares(pod.Spec.InitContainers)
}

func anyAsksForShares(containers []corev1.Container) bool {
	for i := range containers {
		limits := containers[i].Resources.Limits
		if len(limits) == 0 {
			continue
		}
		if _, ok := limits[milliResource]; ok {
			return true
		}
		if _, ok := limits[memoryResource]; ok {
			return true
		}
	}
	return false
}

// isTerminated reports whether the pod's containers have ended for good. Its
// devices are free then, whatever becomes of the object.
func isTerminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
