// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package registry

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// gangs is Coscheduling, and knows how many members of a gang had a node when the gang was
// given up. Its decisions are Coscheduling's.
type gangs struct {
	*coscheduling.Coscheduling
	reserved *reservedMembers
}

var (
	_ fwk.PostFilterPlugin = &gangs{}
	_ fwk.ReservePlugin    = &gangs{}
	_ fwk.PostBindPlugin   = &gangs{}
)

// newCoscheduling builds Coscheduling.
func newCoscheduling(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	reserved := newReservedMembers()
	plugin, err := coscheduling.New(ctx, args, gangHandle{handle, reserved})
	if err != nil {
		return nil, err
	}
	cs, ok := plugin.(*coscheduling.Coscheduling)
	if !ok {
		return nil, fmt.Errorf("want %s to be a %T, got %T", coscheduling.Name, cs, plugin)
	}
	return &gangs{cs, reserved}, nil
}

// PostFilter gives the gang up, if Coscheduling does, and records how many members had a
// node.
func (g *gangs) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	found := g.reserved.counts()[podgroup.Of(pod)]
	result, status := g.Coscheduling.PostFilter(ctx, state, pod, nodes)
	if inGang(pod) && status.Code() == fwk.Unschedulable {
		g.reserved.giveUp(pod, found, true)
		status = fwk.NewStatus(status.Code())
	}
	return result, status
}

// GaveUp returns how many members of the pod's gang had a node when it was given up, and
// whether that was because this pod found none. It forgets the answer: each failed attempt
// is explained once.
func (g *gangs) GaveUp(pod *corev1.Pod) (found int, this, ok bool) {
	g.reserved.mu.Lock()
	defer g.reserved.mu.Unlock()
	gaveUp, ok := g.reserved.gaveUp[pod.UID]
	delete(g.reserved.gaveUp, pod.UID)
	return gaveUp.found, gaveUp.this, ok
}

// Reserve takes note that the pod has a node.
func (g *gangs) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	g.reserved.add(pod)
	return g.Coscheduling.Reserve(ctx, state, pod, node)
}

// Unreserve gives the gang up. The pod had a node until then.
func (g *gangs) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	g.Coscheduling.Unreserve(ctx, state, pod, node)
	g.reserved.remove(pod)
}

// PostBind forgets the pod: that it has a node is in the API.
func (g *gangs) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	g.reserved.remove(pod)
}

func inGang(pod *corev1.Pod) bool { return podgroup.Of(pod) != podgroup.Ref{} }

// reservedMembers are the members of gangs that have a node and are not bound, from
// Reserve to Unreserve or PostBind.
type reservedMembers struct {
	mu   sync.Mutex
	pods map[podgroup.Ref]sets.Set[types.UID]
	// gaveUp are the pods whose gang was given up, until that is explained.
	gaveUp map[types.UID]gaveUp
}

// gaveUp is how many members of a gang had a node, and whether the gang was given up
// because this one found none.
type gaveUp struct {
	found int
	this  bool
}

func newReservedMembers() *reservedMembers {
	return &reservedMembers{pods: map[podgroup.Ref]sets.Set[types.UID]{}, gaveUp: map[types.UID]gaveUp{}}
}

func (h *reservedMembers) giveUp(pod *corev1.Pod, found int, this bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gaveUp[pod.UID] = gaveUp{found, this}
}

func (h *reservedMembers) add(pod *corev1.Pod) {
	if !inGang(pod) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	gang := podgroup.Of(pod)
	if h.pods[gang] == nil {
		h.pods[gang] = sets.New[types.UID]()
	}
	h.pods[gang].Insert(pod.UID)
	delete(h.gaveUp, pod.UID) // of an attempt that is over
}

func (h *reservedMembers) remove(pod *corev1.Pod) {
	if !inGang(pod) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	gang := podgroup.Of(pod)
	h.pods[gang].Delete(pod.UID)
	if len(h.pods[gang]) == 0 {
		delete(h.pods, gang)
	}
}

// counts returns how many members of each gang there are.
func (h *reservedMembers) counts() map[podgroup.Ref]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[podgroup.Ref]int, len(h.pods))
	for gang, pods := range h.pods {
		counts[gang] = len(pods)
	}
	return counts
}

// gangHandle gives Coscheduling waiting pods whose rejection is recorded.
type gangHandle struct {
	fwk.Handle
	reserved *reservedMembers
}

// IterateOverWaitingPods calls visit for each pod that waits for its gang. All of
// them get the same number: a pod that is rejected loses its node while the others are
// visited.
func (h gangHandle) IterateOverWaitingPods(visit func(fwk.WaitingPod)) {
	counts := h.reserved.counts()
	h.Handle.IterateOverWaitingPods(func(pod fwk.WaitingPod) {
		visit(waitingMember{pod, h.reserved, counts[podgroup.Of(pod.GetPod())]})
	})
}

// SnapshotSharedLister returns nodes for the check of a PodGroup's minResources, which is all
// that Coscheduling reads them for.
func (h gangHandle) SnapshotSharedLister() fwk.SharedLister {
	return gangLister{h.Handle.SnapshotSharedLister()}
}

type gangLister struct{ fwk.SharedLister }

// NodeInfos returns the nodes as gangNodes lists them.
func (l gangLister) NodeInfos() fwk.NodeInfoLister { return gangNodes{l.SharedLister.NodeInfos()} }

// gangNodes are the nodes, and one more that has all of what GPUDevice accounts for: no node
// advertises it, so it has to be left out of minResources, as NodeResourcesFit leaves it out.
type gangNodes struct{ fwk.NodeInfoLister }

// List returns them.
func (n gangNodes) List() ([]fwk.NodeInfo, error) {
	nodes, err := n.NodeInfoLister.List()
	if err != nil {
		return nil, err
	}
	accounted := corev1.ResourceList{}
	for _, name := range names.ShareResources {
		accounted[corev1.ResourceName(name)] = *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	}
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{Status: corev1.NodeStatus{Allocatable: accounted}})
	return append(slices.Clip(nodes), info), nil
}

// waitingMember is a member of a gang that has a node and waits for the others.
type waitingMember struct {
	fwk.WaitingPod
	reserved *reservedMembers
	// found is how many members have a node, this one included.
	found int
}

// Reject rejects the pod, and records how many members had a node.
func (m waitingMember) Reject(plugin, msg string) bool {
	m.reserved.giveUp(m.GetPod(), m.found, false)
	return m.WaitingPod.Reject(plugin, msg)
}
