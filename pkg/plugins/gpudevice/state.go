// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

const (
	// preFilterStateKey is where PreFilter leaves its result for Filter and Reserve.
	preFilterStateKey fwk.StateKey = "PreFilter" + Name
	// preScoreStateKey is where PreScore leaves its result for Score.
	preScoreStateKey fwk.StateKey = "PreScore" + Name
)

// preFilterState is what PreFilter found out about the pod.
type preFilterState struct {
	podRequest device.PodRequest
	// claims is whether the pod has a ResourceClaim that is, or may be, for devices.
	claims bool
	// forbidden is whether nodes with devices are not for this pod.
	forbidden bool
	// maxNode is the largest node of the cluster, the same for the whole cycle.
	maxNode device.MaxNode
	// scoring is what all calls of Score need, once that is known; see preScoreStateOf.
	scoring *preScoreState
	// dryRun is set on clones: see Clone.
	dryRun bool
	// chosen are the devices that Reserve chose last in the cycle of a pod group; nil
	// otherwise.
	chosen *chosenDevices
}

// Clone returns a copy that says so. Nothing but PreScore and Reserve writes the state
// after PreFilter; but the framework clones it for the simulations of preemption and
// of nominated pods, and the NodeInfos that Filter is called with then are seen
// only once.
func (s *preFilterState) Clone() fwk.StateData {
	clone := *s
	clone.dryRun = true
	return &clone
}

// isWithoutDevices reports whether the pod asks for no device in any way.
func (s *preFilterState) isWithoutDevices() bool {
	return s.podRequest.Request.Kind == device.RequestNone && !s.claims
}

// admits reports whether the node could take the pod if it were empty.
func (s *preFilterState) admits(node *device.Node) bool {
	switch {
	case s.claims && (node.Kind == device.NodeShared || node.Kind == device.NodeInvalid || node.Kind == device.NodeInOtherPool):
		return false
	case s.forbidden:
		return node.Kind == device.NodeWithoutDevices
	}
	return node.Admits(s.podRequest.Request) == device.Fits
}

// skipsFilter reports whether Filter lets every node pass.
func (s *preFilterState) skipsFilter() bool { return s.isWithoutDevices() && !s.forbidden }

// scored reports whether Score can tell nodes apart: how much of which device a claim or a
// partition is given is not known here.
func (s *preFilterState) scored() bool {
	return !s.claims && s.podRequest.Request.Kind != device.RequestPartitions
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return plugin.ReadState[*preFilterState](state, preFilterStateKey)
}

// getPreFilterStateOrNil returns the state, or nil if PreFilter has left none because the
// pod does not concern the plugin.
func getPreFilterStateOrNil(state fwk.CycleState) *preFilterState {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil // without the text of an error, which plain pods would pay for
	}
	s, _ := data.(*preFilterState)
	return s
}

// preScoreState is what all calls of Score for one pod share.
type preScoreState struct {
	podRequest device.PodRequest
	maxNode    device.MaxNode
	workload   *publishedWorkload
	// request is the key of the pod's request.
	request device.RequestKey
	// key is the number of (request, CPU, largest node, expected workload) by which scores
	// are remembered.
	key uint64
	// ranked is whether the scores are an order and no amounts.
	ranked bool
	// extended is isFilteredByExtender of the pod.
	extended bool
}

// Clone returns the state itself: it is never written after PreScore.
func (s *preScoreState) Clone() fwk.StateData {
	return s
}

func getPreScoreState(state fwk.CycleState) (*preScoreState, error) {
	return plugin.ReadState[*preScoreState](state, preScoreStateKey)
}

// clusterMemo remembers the largest node of a list. What devices there are is
// found out beside it, and goes to the expected workload.
type clusterMemo struct {
	first   *fwk.NodeInfo
	count   int
	uses    int
	maxNode device.MaxNode
}

// maxClusterUses is how often the largest node is used before it is looked for again: nodes
// may have grown.
const maxClusterUses = 512

// updateCluster returns the largest node of the list, and tells the expected workload
// what devices the nodes have. The snapshot makes a new list
// when nodes come or go, and otherwise hands out the same one, so that the nodes
// are not looked at for every pod.
func (pl *GPUDevice) updateCluster(nodes []fwk.NodeInfo) device.MaxNode {
	if len(nodes) == 0 {
		return device.MaxNode{}
	}
	memo := &pl.cluster
	if memo.first == &nodes[0] && memo.count == len(nodes) && memo.uses < maxClusterUses {
		memo.uses++
		return memo.maxNode
	}
	var largest device.MaxNode
	devices := map[device.Supply]int64{}
	for _, nodeInfo := range nodes {
		v := pl.view(nodeInfo, false)
		largest.CPUMilli = max(largest.CPUMilli, nodeInfo.GetAllocatable().GetMilliCPU())
		largest.GPUMilli = max(largest.GPUMilli, int64(v.node.Devices)*device.MilliPerDevice)
		if v.hasUsage && v.node.Devices > 0 {
			devices[device.Supply{Model: v.node.Model, MemoryMiB: v.node.MemoryMiB}] += int64(v.node.Devices)
		}
	}
	pl.workload.setSupply(devices)
	*memo = clusterMemo{first: &nodes[0], count: len(nodes), maxNode: largest}
	return largest
}
