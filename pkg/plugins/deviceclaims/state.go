// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
)

const cycleStateKey fwk.StateKey = Name

// cycleState is what PreFilter prepares for all nodes, and what Filter finds on each. It is
// in the state of a cycle if all claims of the pod are to be allocated, or if it has none.
type cycleState struct {
	slices    sliceIndex
	allocated *allocatedState
	// demand is what the claims ask for, nil if package device has no model of it.
	demand   []demand
	cpuMilli int64
	maxNode  device.MaxNode
	workload *device.Workload
	// withoutClaims is whether the pod has no claims, so that nodes are scored for it alone, and preFiltered
	// what PreFilter has returned.
	withoutClaims bool
	preFiltered   *fwk.Status

	mu      sync.Mutex
	results map[string]*result
}

// Clone returns the same: as with DynamicResources, what Filter finds with nominated pods
// and without them is one thing.
func (s *cycleState) Clone() fwk.StateData { return s }

// result is an allocation that Filter has found on a node.
type result struct {
	// stock is what DynamicResources has kept of it.
	stock fwk.StateData
	// score is the strategy's, 0 if it has not rated the node.
	score int64
	// profiles are those of the devices, of a GPU that is divided.
	profiles []string
}

func (s *cycleState) keep(node string, r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[node] = r
}

func (s *cycleState) result(node string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[node]
}
