// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// prospect is a node and a pod as the strategy sees them.
type prospect struct {
	usage device.Usage
	node  device.CandidateNode
	pod   device.PodRequest
}

// requests are what the pod's claims ask for, by what of a node they depend on. For one goroutine.
type requests map[requestKind]*device.Request

type requestKind struct {
	driver    string
	shared    bool
	memoryMiB int64
	compute   int64
}

// prospectOf returns false if package device has no model of the pod's claims or of the node's
// devices, or if there is no room by the model. known may be nil.
func (s *cycleState) prospectOf(p *prospect, n *nodeSlices, node fwk.NodeInfo, known requests) bool {
	if s.demand == nil {
		return false
	}
	m := n.modelled()
	if m == nil {
		return false
	}
	kind := m.requestKind()
	request, ok := known[kind]
	if !ok {
		request = m.request(s.demand)
		if known != nil {
			known[kind] = request
		}
	}
	if request == nil {
		return false
	}
	if p.usage = m.usage(s.allocated.AllocatedState); !p.usage.Fits(request) {
		return false
	}
	p.node = device.CandidateNode{
		Usage: &p.usage, CPUMilli: node.GetAllocatable().GetMilliCPU() - node.GetRequested().GetMilliCPU(),
		MaxNode: s.maxNode, Workload: s.workload.For(&m.node),
	}
	p.pod = device.PodRequest{Request: request, CPUMilli: s.cpuMilli}
	return true
}

// rank returns what Score says of all nodes: 0 of those without a prospect. Whether the claims can
// be allocated is for Filter to say, so that none is unfit.
func (pl *DeviceClaims) rank(s *cycleState, nodes []fwk.NodeInfo) *candidates.Ranking {
	r := &pl.ranking
	r.Ordinal = true
	r.Scores = append(r.Scores[:0], make([]int32, len(nodes))...)
	known := requests{}
	var p prospect
	for i, node := range nodes {
		if s.withoutClaims {
			r.Scores[i] = int32(pl.scoreWithoutClaims(s, node)) //nolint:gosec // up to 28 bits
		} else if s.prospectOf(&p, s.slices.of(node.Node().Name), node, known) {
			r.Scores[i] = int32(pl.strategy.Score(p.node, p.pod)) //nolint:gosec // up to 28 bits
		}
	}
	return r
}

// scoreWithoutClaims is how good a node is for a pod that asks for no device: best without devices, and worse the
// more the devices lose of what they are worth for claims when it takes the CPU beside them. GPUDevice
// does the same for shares (nonGPUPods: Avoid).
func (pl *DeviceClaims) scoreWithoutClaims(s *cycleState, node fwk.NodeInfo) int64 {
	n := s.slices.of(node.Node().Name)
	if len(n.devices) == 0 {
		return device.MaxGradientScore + 1
	}
	m := n.modelled()
	if m == nil {
		return 0
	}
	usage := m.usage(s.allocated.AllocatedState)
	return pl.strategy.Score(device.CandidateNode{
		Usage: &usage, CPUMilli: node.GetAllocatable().GetMilliCPU() - node.GetRequested().GetMilliCPU(),
		MaxNode: s.maxNode, Workload: s.workload.For(&m.node),
	}, device.PodRequest{Request: &noDevices, CPUMilli: s.cpuMilli})
}

// noDevices is what a pod without claims asks for. It is only read.
var noDevices = device.Request{Kind: device.RequestNone}

// choose has the strategy choose devices for the pod's claims. It returns the node's slices without
// the devices that were not chosen; nil if there are none to choose.
func (pl *DeviceClaims) choose(s *cycleState, n *nodeSlices, node fwk.NodeInfo) ([]*resourcev1.ResourceSlice, *result) {
	p := &prospect{}
	if !s.prospectOf(p, n, node, nil) {
		return nil, &result{}
	}
	found := &result{score: pl.strategy.Score(p.node, p.pod)}
	assignment, ok := device.Assign(pl.strategy, p.node, p.pod)
	if !ok {
		return nil, found
	}
	used := assignment.PodUsage(p.pod.Request.Containers)
	return n.model.only(n.slices, used.Devices()), found
}

// only returns copies of the slices without the devices that are not in the set. All slices
// stay: a pool without one of them is incomplete, and nothing is allocated from it. No device
// that consumes counters is ever left out, which would make its counters free: a
// model has none.
func (m *nodeModel) only(list []*resourcev1.ResourceSlice, set device.Set) []*resourcev1.ResourceSlice {
	left := make([]*resourcev1.ResourceSlice, 0, len(list))
	i := 0
	for _, slice := range list {
		reduced := *slice
		reduced.Spec.Devices = nil
		for d := range slice.Spec.Devices {
			if set.Has(i) {
				reduced.Spec.Devices = append(reduced.Spec.Devices, slice.Spec.Devices[d])
			}
			i++
		}
		left = append(left, &reduced)
	}
	return left
}

// usage returns what is free of the devices.
func (m *nodeModel) usage(state *structured.AllocatedState) device.Usage {
	u, _ := m.node.Usage()
	for i, id := range m.ids {
		if state.AllocatedDevices.Has(id) {
			u.Take(i, u.Capacity())
			continue
		}
		if consumed, ok := state.AggregatedCapacity[id]; ok {
			u.Take(i, m.consumed(consumed))
		}
	}
	return u
}
