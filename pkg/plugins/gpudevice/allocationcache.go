// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// allocationCache is what a scheduler instance must remember of devices beyond its
// NodeInfos. All profiles of the instance share one, because they share nodes.
//
// The bound pods are the truth, and the NodeInfos hold them: what is free on a
// node is computed from there. Two things they cannot tell, and the cache does:
// which devices are assumed for a pod that is not seen bound yet, and what a pod's
// record said when it was first seen.
//
//	         Reserve          Binding sent, no clear answer
//	(absent) ───────> assumed ─────────────────────────────> bindingUnknown
//	    ^   Unreserve │   ^            clear answer             │
//	    ├─────────────┤   └─────────────────────────────────────┤
//	    │             │ seen bound                              │
//	    │             v                                         │
//	    │      bound, unrecorded <──────────────────────────────┤
//	    └───────── deleted, terminated ─────────────────────────┘
//
// While it is not known whether a Binding was written, Bind does not return, unless the process ends.
//
// NodeInfos and cache learn of the same events at different times, and a cycle
// works on a snapshot while others end: Unreserve takes a pod out of the cache
// while the snapshots of other cycles still show it as assumed, and once a group of
// pods fits, its members are assumed one after the other while the snapshot shows
// none of them (and some are seen bound meanwhile). The invariants that hold at any
// of these moments:
//
//   - A pod with an allocation on the node counts with it where the NodeInfo shows the
//     pod. Reserve moreover counts every allocation on the node that the NodeInfo does not
//     show (notShown).
//   - A pod without an allocation that the NodeInfo shows on its node counts with its own
//     record if the informer's store has it bound there, and as one of unknown devices
//     if that cannot be believed. If the store has not, it holds nothing: the cycle
//     that assumed it was given up, or it is gone.
//   - What allocations other than unrecorded hold of a device is never more than it has,
//     as long as no other scheduler binds to the node.
//   - Whatever changes what a pod counts with raises the revision of its node, after
//     the change, and puts the node into changes.
//   - A pod of whose end or node the informer has told is not assumed any more.
//
// Assumptions: a UID never comes back; the informer's store changes before any of
// its handlers is told; it delivers the versions of a pod in order; a pod's node
// never changes, unless etcd is restored from before its Binding.
type allocationCache struct {
	// ctx ends with the process.
	ctx    context.Context
	clock  clock.PassiveClock
	client kubernetes.Interface
	// config is what client was made of; nil in a simulation or a test.
	config *rest.Config
	pods   cache.SharedIndexInformer
	nodes  corelisters.NodeLister
	// synced is done when the handler has seen every pod of the first list.
	synced  cache.DoneChecker
	startup startupWait
	kept    keptPods
	// identity tells this process from all others, as that of a leader election does, and epoch
	// when it began to fence; fenceWrites counts the tokens. See nextToken.
	identity    types.UID
	epoch       string
	fenceWrites atomic.Int64
	// deposed is whether another process has taken over; see heedToken.
	deposed atomic.Bool

	// byPod are *podAllocation by the UID of their pod. Read without the lock, written
	// with it held.
	byPod sync.Map

	// mu guards what follows, and writing above.
	mu sync.Mutex
	// byNode has the allocations by node.
	byNode     map[string]map[types.UID]*podAllocation
	nodeStates map[string]*nodeState
	// changes are the nodes whose revision was raised.
	changes changeLog[string]
	// plugins are those that share the cache, one for each profile.
	plugins []*GPUDevice
}

// get returns what is held for the pod, or nil.
func (c *allocationCache) get(uid types.UID) *podAllocation {
	if value, ok := c.byPod.Load(uid); ok {
		if h, ok := value.(*podAllocation); ok {
			return h
		}
	}
	return nil
}

// allocationOn returns what is held for the pod on the node, or nil.
func (c *allocationCache) allocationOn(uid types.UID, node string) *podAllocation {
	if h := c.get(uid); h != nil && h.node == node {
		return h
	}
	return nil
}

// noAllocation is that of a pod that the informer does not show on the node.
var noAllocation = &device.Allocation{}

// allocationOfShownPod returns the allocation of a pod that the NodeInfo of the node shows
// and the cache does not have there, by its record in the informer: nil if that is
// invalid, and noAllocation if the informer does not have it bound there, because it was
// unreserved or is gone.
func (c *allocationCache) allocationOfShownPod(pod *corev1.Pod, node string) *device.Allocation {
	informerPod := c.podFromInformer(pod)
	if informerPod == nil || informerPod.Spec.NodeName != node {
		return noAllocation
	}
	allocation, err := device.ParseAllocation(informerPod)
	if err != nil {
		return nil
	}
	return allocation
}

// errNotPending is an error of assume, which users read.
var errNotPending = errors.New("the pod is deleted, has terminated or is bound already")

// assume assumes devices for a pod, in the place of others that are assumed for it. The
// error is errNotPending if the informer does not have the pod pending: nothing would ever
// take the devices back. (The API server may well write its Binding: it binds a pod that
// has terminated without a node, which the informer never shows.) It is errFenced where
// another process has taken over.
func (c *allocationCache) assume(pod *corev1.Pod, node string, allocation *device.Allocation, annotations map[string]string) error {
	h := &podAllocation{
		pod: pod, node: node, phase: assumed, allocation: allocation,
		annotations: annotations, since: c.clock.Now(),
	}
	if informerPod := c.podFromInformer(pod); informerPod != nil {
		if err := c.heedToken(informerPod); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.get(pod.UID); known != nil && known.phase != assumed {
		return errNotPending
	}
	c.putLocked(h)
	// The informer's store changes before its handlers are told. So either the end
	// of the pod shows here, or the handler will find the allocation and remove it.
	if !c.isPendingInInformer(pod) {
		c.removeLocked(h)
		return errNotPending
	}
	return nil
}

// podFromInformer returns the pod as the informer's store has it, or nil if it is gone
// there, has terminated or has another UID.
func (c *allocationCache) podFromInformer(pod *corev1.Pod) *corev1.Pod {
	obj, ok, err := c.pods.GetStore().GetByKey(cache.NewObjectName(pod.Namespace, pod.Name).String())
	if err != nil || !ok {
		return nil // the store of an informer has no errors
	}
	informerPod, ok := obj.(*corev1.Pod)
	if !ok || informerPod.UID != pod.UID || podphase.IsTerminated(informerPod) {
		return nil
	}
	return informerPod
}

// isPendingInInformer reports whether the informer knows the pod, and no node of it.
func (c *allocationCache) isPendingInInformer(pod *corev1.Pod) bool {
	informerPod := c.podFromInformer(pod)
	return informerPod != nil && informerPod.Spec.NodeName == ""
}

// notShown returns the allocations on a node that its NodeInfo does not show, but for the
// pod's own and those of pods that are gone.
func (c *allocationCache) notShown(nodeInfo fwk.NodeInfo, without types.UID) podAllocations {
	shown := map[types.UID]struct{}{without: {}}
	for _, podInfo := range nodeInfo.GetPods() {
		shown[podInfo.GetPod().UID] = struct{}{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var found podAllocations
	for uid, h := range c.byNode[nodeInfo.Node().Name] {
		if _, ok := shown[uid]; !ok && c.podFromInformer(h.pod) != nil {
			found = append(found, h)
		}
	}
	return found
}

// forgetPod takes back what was assumed. It may be called any number of times. What may
// have been written to the API stays taken, and what is bound is not assumed.
func (c *allocationCache) forgetPod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.get(uid); h != nil && h.phase == assumed {
		c.removeLocked(h)
	}
}

// setBindingUnknown says whether a Binding of the pod may have been written.
func (c *allocationCache) setBindingUnknown(uid types.UID, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.get(uid)
	switch {
	case h == nil:
	case h.phase == assumed && unknown:
		c.putLocked(h.in(bindingUnknown))
	case h.phase == bindingUnknown && !unknown:
		c.putLocked(h.in(assumed))
	}
}

// removePod forgets a pod that is gone or has terminated, and returns what it held.
func (c *allocationCache) removePod(uid types.UID) *podAllocation {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.get(uid)
	if h != nil {
		c.removeLocked(h)
	}
	return h
}

// putLocked adds an allocation, or puts it in the place of the pod's former one. Views are
// computed meanwhile, without the lock: none of them misses the pod. Those that count
// it otherwise than from now on are told, which they need not be where a pod was bound
// as it was assumed.
func (c *allocationCache) putLocked(h *podAllocation) {
	uid, state := h.pod.UID, c.getOrCreateNodeStateLocked(h.node)
	old := c.get(uid)
	if c.byNode[h.node] == nil {
		c.byNode[h.node] = map[types.UID]*podAllocation{}
	}
	c.byNode[h.node][uid] = h
	c.byPod.Store(uid, h)
	if old != nil && old.node != h.node {
		c.detachLocked(old)
	}
	state.numAllocations.Store(int64(len(c.byNode[h.node])))
	if old == nil || old.node != h.node || !sameAllocation(old.allocation, h.allocation) || h.phase == unrecorded {
		c.raiseRevisionLocked(h.node, state)
	}
}

// removeLocked forgets an allocation.
func (c *allocationCache) removeLocked(h *podAllocation) {
	c.byPod.Delete(h.pod.UID)
	c.detachLocked(h)
}

// detachLocked takes an allocation out of the lists of its node.
func (c *allocationCache) detachLocked(h *podAllocation) {
	state := c.getOrCreateNodeStateLocked(h.node)
	delete(c.byNode[h.node], h.pod.UID)
	state.numAllocations.Store(int64(len(c.byNode[h.node])))
	if len(c.byNode[h.node]) == 0 {
		delete(c.byNode, h.node)
	}
	c.raiseRevisionLocked(h.node, state)
	c.deleteNodeStateIfUnusedLocked(h.node)
}
