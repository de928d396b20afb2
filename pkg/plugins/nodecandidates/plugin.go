// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = candidates.NarrowingPlugin

// maxMissed bounds the memory of pods that wait for an attempt with all nodes.
const maxMissed = 1024

// NodeCandidates is the plugin. See the package comment. Its PreFilter and PostFilter are
// called by the goroutine that schedules, and by no other.
type NodeCandidates struct {
	handle  fwk.Handle
	profile profile
	// missed are the pods, by UID, whose next attempt is to look at all nodes.
	missed *lru.Cache
	// offset is the node with which the choice among equal ones begins: the one after those
	// that were offered last, where there were more. So it is not always the same that are
	// offered, as with the scheduler's own nextStartNodeIndex.
	offset   int
	nodes    nodeField
	counters counters
}

var (
	_ fwk.PreFilterPlugin   = &NodeCandidates{}
	_ fwk.PostFilterPlugin  = &NodeCandidates{}
	_ fwk.EnqueueExtensions = &NodeCandidates{}
	_ fwk.SignPlugin        = &NodeCandidates{}
)

// Name returns the name of the plugin.
func (pl *NodeCandidates) Name() string { return Name }

// New builds the plugin, which takes no args: anything but nil is an error.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if args != nil {
		return nil, fmt.Errorf("%s takes no args, got %T", Name, args)
	}
	registerMetrics()
	return &NodeCandidates{handle: handle, missed: lru.New(maxMissed), counters: newCounters(handle.ProfileName())}, nil
}

// PreFilterExtensions returns nil: there is no Filter.
func (pl *NodeCandidates) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister returns none: a pod that failed because of this plugin is tried again at
// once, by PostFilter.
func (pl *NodeCandidates) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod signs all pods alike: the plugin reads nothing of a pod but what the plugins that
// rank nodes for it have found. These do not sign a pod whose cycle it may narrow
// (candidates.Narrows).
func (pl *NodeCandidates) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// PostFilter is told of every attempt that failed. One that was narrowed is repeated at
// once with all nodes, and PostFilter ends here: preemption would evict pods for one that
// may fit on a node that nobody has looked at.
func (pl *NodeCandidates) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := state.Read(narrowedKey); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pl.counters[missedAll].Inc()
	pl.missed.Add(pod.UID, nil)
	pl.handle.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{klog.KObj(pod).String(): pod})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// narrowed is in the state of a cycle that was narrowed.
type narrowed struct{}

const narrowedKey fwk.StateKey = "PreFilter" + Name

// Clone returns the same: there is nothing in it.
func (n narrowed) Clone() fwk.StateData { return n }
