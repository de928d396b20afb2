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
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
)

// gangs is Coscheduling with reasons that say how many members of the gang had a
// node. Its decisions are Coscheduling's.
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
	reserved := &reservedMembers{pods: map[gangName]sets.Set[types.UID]{}}
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

// PostFilter gives the gang up, if Coscheduling does, and says how many members had
// a node.
func (g *gangs) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	found := g.reserved.counts()[gangOf(pod)]
	result, status := g.Coscheduling.PostFilter(ctx, state, pod, nodes)
	if inGang(pod) && status.Code() == fwk.Unschedulable {
		status = fwk.NewStatus(status.Code(), pending.GangReason(found, true))
	}
	return result, status
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

// gangName is a gang's namespace and name.
type gangName struct{ namespace, name string }

func gangOf(pod *corev1.Pod) gangName {
	return gangName{pod.Namespace, pod.Labels[PodGroupLabel]}
}

func inGang(pod *corev1.Pod) bool { return pod.Labels[PodGroupLabel] != "" }

// reservedMembers are the members of gangs that have a node and are not bound, from
// Reserve to Unreserve or PostBind.
type reservedMembers struct {
	mu   sync.Mutex
	pods map[gangName]sets.Set[types.UID]
}

func (h *reservedMembers) add(pod *corev1.Pod) {
	if !inGang(pod) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods[gangOf(pod)] == nil {
		h.pods[gangOf(pod)] = sets.New[types.UID]()
	}
	h.pods[gangOf(pod)].Insert(pod.UID)
}

func (h *reservedMembers) remove(pod *corev1.Pod) {
	if !inGang(pod) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[gangOf(pod)].Delete(pod.UID)
	if len(h.pods[gangOf(pod)]) == 0 {
		delete(h.pods, gangOf(pod))
	}
}

// counts returns how many members of each gang there are.
func (h *reservedMembers) counts() map[gangName]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[gangName]int, len(h.pods))
	for gang, pods := range h.pods {
		counts[gang] = len(pods)
	}
	return counts
}

// gangHandle gives Coscheduling waiting pods that are rejected with another reason.
type gangHandle struct {
	fwk.Handle
	reserved *reservedMembers
}

// IterateOverWaitingPods calls visit for each pod that waits for its gang. All of
// them are told of the same number: a pod that is rejected loses its node while the
// others are visited.
func (h gangHandle) IterateOverWaitingPods(visit func(fwk.WaitingPod)) {
	counts := h.reserved.counts()
	h.Handle.IterateOverWaitingPods(func(pod fwk.WaitingPod) {
		visit(waitingMember{pod, counts[gangOf(pod.GetPod())]})
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
	// found is how many members have a node, this one included.
	found int
}

// Reject rejects the pod, and says how many members had a node.
func (m waitingMember) Reject(plugin, _ string) bool {
	return m.WaitingPod.Reject(plugin, pending.GangReason(m.found, false))
}
