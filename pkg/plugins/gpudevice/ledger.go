// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// ledger is what a scheduler instance must remember of devices beyond its
// NodeInfos. All profiles of the instance share one, because they share nodes.
//
// The bound pods are the truth, and the NodeInfos hold them: what is free on a
// node is computed from there. Two things they cannot tell, and the ledger does:
// which devices are assumed for a pod that is not seen bound yet, and what a pod's
// record said when it was first seen.
//
//	         Reserve          Binding sent, no clear answer
//	(absent) ───────> assumed ─────────────────────────────> bindingUnknown
//	    ^   Unreserve │   ^            clear answer             │  │ Unreserve
//	    ├─────────────┤   └─────────────────────────────────────┘  v
//	    │             │ seen bound                               leaked
//	    │             v                                            │
//	    │      bound, unrecorded <─────────────────────────────────┤
//	    └───────── deleted, terminated ────────────────────────────┘
//
// NodeInfos and ledger learn of the same events at different times, and a cycle
// works on a snapshot while others end: Unreserve takes a pod out of the ledger
// while the snapshots of other cycles still show it as assumed, and once a group of
// pods fits, its members are assumed one after the other while the snapshot shows
// none of them (and some are seen bound meanwhile). The invariants that hold at any
// of these moments:
//
//   - A pod with an allocation on the node counts with it where the NodeInfo shows the
//     pod. A leaked one counts whether or not a NodeInfo shows it. Reserve moreover
//     counts every allocation on the node that the NodeInfo does not show (notShown).
//   - A pod without an allocation that the NodeInfo shows on its node counts with its own
//     record if the informer's store has it bound there, and as one of unknown devices
//     if that cannot be believed. If the store has not, it holds nothing: the cycle
//     that assumed it was given up, or it is gone.
//   - What allocations other than unrecorded hold of a device is never more than it has,
//     as long as no other scheduler binds to the node.
//   - Whatever changes what a pod counts with raises the revision of its node, after
//     the change.
//   - A pod of whose end or node the informer has told is not assumed any more.
//
// Assumptions: a UID never comes back; the informer's store changes before any of
// its handlers is told; it delivers the versions of a pod in order; a pod's node
// never changes.
type ledger struct {
	clock  clock.PassiveClock
	client kubernetes.Interface
	// config is what client was made of; nil in a simulation or a test.
	config *rest.Config
	pods   cache.SharedIndexInformer
	nodes  corelisters.NodeLister
	// synced is done when the handler has seen every pod of the first list.
	synced cache.DoneChecker
	leader leaderWait
	// process tells this process from all others, and touches counts its writes by touch.
	process types.UID
	touches atomic.Int64

	// byPod are *podAllocation by the UID of their pod. Read without the lock, written
	// with it held.
	byPod sync.Map

	// mu guards what follows, and writing above.
	mu sync.Mutex
	// byNode has the allocations that are not leaked, by node.
	byNode        map[string]map[types.UID]*podAllocation
	invalidations map[string]*nodeInvalidation
	// members are the plugins that share the ledger, one for each profile.
	members []*GPUDevice
}

// invalidationOf returns the invalidation of a node, and whether the node is there. Those of one that
// is gone are kept only while something is held on it.
func (l *ledger) invalidationOf(node string) (*nodeInvalidation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.isThere(node)
	invalidation := l.invalidations[node]
	switch {
	case there:
		invalidation = l.invalidationLocked(node)
		invalidation.gone = false
	case invalidation == nil:
		invalidation = &nodeInvalidation{}
	}
	return invalidation, there
}

func (l *ledger) invalidationLocked(node string) *nodeInvalidation {
	invalidation, ok := l.invalidations[node]
	if !ok {
		invalidation = &nodeInvalidation{gone: !l.isThere(node)}
		l.invalidations[node] = invalidation
	}
	return invalidation
}

// isThere reports whether the informer's store has the node.
func (l *ledger) isThere(node string) bool {
	_, err := l.nodes.Get(node)
	return err == nil // the lister's only error is that it is not there
}

// releaseLocked lets go of the invalidation of a node that is gone and on which nothing is held.
func (l *ledger) releaseLocked(node string) {
	invalidation := l.invalidations[node]
	if invalidation != nil && invalidation.gone && len(l.byNode[node]) == 0 && len(invalidation.leaked.Load().all()) == 0 && !l.isThere(node) {
		delete(l.invalidations, node)
	}
}

// get returns what is held for the pod, or nil.
func (l *ledger) get(uid types.UID) *podAllocation {
	if value, ok := l.byPod.Load(uid); ok {
		if h, ok := value.(*podAllocation); ok {
			return h
		}
	}
	return nil
}

// allocationOn returns what is held for the pod on the node, or nil.
func (l *ledger) allocationOn(uid types.UID, node string) *podAllocation {
	if h := l.get(uid); h != nil && h.node == node {
		return h
	}
	return nil
}

// nothing is the allocation of a pod that holds nothing.
var nothing = &device.Allocation{}

// recordOf returns what a pod was given that the NodeInfo of the node shows there and
// that has no allocation there; nil if that is not known. What the NodeInfo shows as
// assumed may be bound by now, or given up, or gone.
func (l *ledger) recordOf(pod *corev1.Pod, node string) *device.Allocation {
	stored := l.stored(pod)
	if stored == nil || stored.Spec.NodeName != node {
		return nothing
	}
	allocation, err := device.ParseAllocation(stored)
	if err != nil {
		return nil
	}
	return allocation
}

// assume assumes devices for a pod, and reports whether it has: nothing would
// ever take them back from a pod of whose end the informer has told already. Its
// Binding may well be written: the API server binds a pod that has terminated
// without a node, and the informer, which leaves terminated pods out, never shows it.
// Nor is anything else assumed for a leaked one: its Binding may still be written.
func (l *ledger) assume(pod *corev1.Pod, node string, allocation *device.Allocation, annotations map[string]string) bool {
	h := &podAllocation{
		pod: pod, node: node, phase: assumed, allocation: allocation,
		annotations: annotations, since: l.clock.Now(),
	}
	if stored := l.stored(pod); stored != nil {
		h.fence = fenceOf(stored)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.get(pod.UID); known != nil && known.phase != assumed && known.phase != bindingUnknown {
		return false
	}
	l.putLocked(h)
	// The informer's store changes before its handlers are told. So either the end
	// of the pod shows here, or the handler will find the allocation and drop it.
	if !l.isPending(pod) {
		l.removeLocked(h)
		return false
	}
	return true
}

// stored returns the pod as the informer's store has it, or nil if it is gone or has
// terminated there.
func (l *ledger) stored(pod *corev1.Pod) *corev1.Pod {
	obj, ok, err := l.pods.GetStore().GetByKey(cache.NewObjectName(pod.Namespace, pod.Name).String())
	if err != nil || !ok {
		return nil // the store of an informer has no errors
	}
	stored, ok := obj.(*corev1.Pod)
	if !ok || stored.UID != pod.UID || isTerminated(stored) {
		return nil
	}
	return stored
}

// isPending reports whether the informer knows the pod, and no node of it.
func (l *ledger) isPending(pod *corev1.Pod) bool {
	stored := l.stored(pod)
	return stored != nil && stored.Spec.NodeName == ""
}

// notShown returns the allocations on a node that its NodeInfo does not show, but for the
// pod's own and those of pods that are gone.
func (l *ledger) notShown(nodeInfo fwk.NodeInfo, without types.UID) podAllocations {
	shown := map[types.UID]struct{}{without: {}}
	for _, podInfo := range nodeInfo.GetPods() {
		shown[podInfo.GetPod().UID] = struct{}{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found podAllocations
	for uid, h := range l.byNode[nodeInfo.Node().Name] {
		if _, ok := shown[uid]; !ok && l.stored(h.pod) != nil {
			found = append(found, h)
		}
	}
	return found
}

// forget takes back what was assumed. It may be called any number of times. What may
// have been written to the API stays taken, and what is bound is not assumed.
func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.get(uid)
	if h == nil {
		return
	}
	switch h.phase {
	case assumed:
		l.removeLocked(h)
	case bindingUnknown:
		l.putLocked(h.in(leaked))
	case leaked, bound, unrecorded:
	}
}

// setBindingUnknown says whether a Binding of the pod may have been written.
func (l *ledger) setBindingUnknown(uid types.UID, unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.get(uid)
	switch {
	case h == nil:
	case h.phase == assumed && unknown:
		l.putLocked(h.in(bindingUnknown))
	case h.phase == bindingUnknown && !unknown:
		l.putLocked(h.in(assumed))
	}
}

// observation is what observe found.
type observation struct {
	// held is the pod's; nil if the pod holds nothing.
	held *podAllocation
	// first is whether the pod was not known to be bound before.
	first bool
	// problem is why the pod is unrecorded, nil if it is not.
	problem error
	// overcommitted are the devices of the node that the pod shares with others and of
	// which more is held than they have, and conflicting the pods on them.
	overcommitted device.Set
	conflicting   []*corev1.Pod
	// certain is whether two schedulers must have bound at once; otherwise it may be
	// that the node says less of its devices' memory than it did.
	certain bool
}

// observe takes note of a version of a pod that the informer delivered. The first
// version that is bound decides what the pod holds.
func (l *ledger) observe(pod *corev1.Pod) observation {
	if pod.Spec.NodeName == "" || !asksForShares(pod) {
		return observation{}
	}
	if isTerminated(pod) {
		l.drop(pod.UID)
		return observation{}
	}
	if h := l.get(pod.UID); h != nil && (h.phase == bound || h.phase == unrecorded) {
		return observation{held: h}
	}
	h := &podAllocation{pod: pod, node: pod.Spec.NodeName, phase: bound}
	allocation, err := device.ParseAllocation(pod)
	if err != nil {
		h.phase = unrecorded
	} else {
		h.allocation = allocation
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.putLocked(h)
	s := observation{held: h, first: true, problem: err}
	if err == nil {
		s.overcommitted, s.conflicting, s.certain = l.conflictsLocked(h)
	}
	return s
}

// conflictsLocked returns the devices of h of which more is used than there is, by
// several bound pods, all the pods on them, and whether already the compute that they
// ask for is too much: that does not depend on what the node says of its memory.
func (l *ledger) conflictsLocked(h *podAllocation) (overcommitted device.Set, conflicting []*corev1.Pod, certain bool) {
	node := l.describe(h.node)
	// Memory that the node does not tell is not counted.
	used := device.NewUsage(device.MaxDevices, cmp.Or(node.MemoryMiB, math.MaxInt64), 0)
	asked := device.NewUsage(device.MaxDevices, math.MaxInt64, 0)
	users := map[*podAllocation]device.Set{}
	for _, other := range l.byNode[h.node] {
		if other.phase == bound {
			on, _ := other.allocation.On(node)
			used.Add(on)
			asked.Add(other.allocation.AskedOn(node))
			users[other] = on.Devices()
		}
	}
	for d := range (used.Overcommitted() & users[h]).All() {
		for other, devices := range users {
			if other != h && devices.Has(d) {
				overcommitted = overcommitted.With(d)
				certain = certain || asked.Free(d).Milli < 0
			}
		}
	}
	for other, devices := range users {
		if devices&overcommitted != 0 {
			conflicting = append(conflicting, other.pod)
		}
	}
	return overcommitted, conflicting, certain
}

// describe returns what the node says of its devices, to the first of the members that
// finds some: profiles may read different labels. Of a node that is not known it returns
// nothing.
func (l *ledger) describe(node string) *device.Node {
	if len(l.members) == 0 {
		return &device.Node{}
	}
	object, err := l.nodes.Get(node)
	if err != nil {
		return &device.Node{} // the lister's only error is that the node is not there
	}
	for _, member := range l.members {
		if node := device.ParseNode(object, member.nodeKeys); node.Kind == device.NodeShared {
			return node
		}
	}
	return device.ParseNode(object, l.members[0].nodeKeys)
}

// drop forgets a pod that is gone or has terminated.
func (l *ledger) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.get(uid); h != nil {
		l.removeLocked(h)
	}
}

// nodeGone forgets a node. What pods there still hold is kept until they go too: the node
// may be back under the same name.
func (l *ledger) nodeGone(node string) {
	// First the cells: none is left that has an invalidation which the ledger does not know.
	for _, member := range l.profiles() {
		member.nodes.remove(node)
		member.deviceNodes.remove(node)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if invalidation := l.invalidations[node]; invalidation != nil {
		invalidation.gone = !l.isThere(node)
	}
	l.releaseLocked(node)
}

// putLocked adds an allocation, or puts it in the place of the pod's former one. Views are
// computed meanwhile, without the lock: none of them misses the pod. Those that count
// it otherwise than from now on are told, which they need not be where a pod was bound
// as it was assumed.
func (l *ledger) putLocked(h *podAllocation) {
	uid, invalidation := h.pod.UID, l.invalidationLocked(h.node)
	old := l.get(uid)
	if h.phase == leaked {
		invalidation.leaked.add(h)
	} else {
		if l.byNode[h.node] == nil {
			l.byNode[h.node] = map[types.UID]*podAllocation{}
		}
		l.byNode[h.node][uid] = h
	}
	l.byPod.Store(uid, h)
	if old != nil && (old.node != h.node || (old.phase == leaked) != (h.phase == leaked)) {
		l.detachLocked(old)
	}
	invalidation.held.Store(int64(len(l.byNode[h.node])))
	if old == nil || old.node != h.node || !sameAllocation(old.allocation, h.allocation) || (old.phase == leaked) != (h.phase == leaked) || h.phase == unrecorded {
		invalidation.revision.Add(1)
	}
}

func sameAllocation(a, b *device.Allocation) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}

// removeLocked forgets an allocation.
func (l *ledger) removeLocked(h *podAllocation) {
	l.byPod.Delete(h.pod.UID)
	l.detachLocked(h)
}

// detachLocked takes an allocation out of the lists of its node.
func (l *ledger) detachLocked(h *podAllocation) {
	invalidation := l.invalidationLocked(h.node)
	if h.phase == leaked {
		invalidation.leaked.remove(h.pod.UID)
	} else {
		delete(l.byNode[h.node], h.pod.UID)
		invalidation.held.Store(int64(len(l.byNode[h.node])))
		if len(l.byNode[h.node]) == 0 {
			delete(l.byNode, h.node)
		}
	}
	invalidation.revision.Add(1)
	l.releaseLocked(h.node)
}

const (
	milliResource  = corev1.ResourceName(names.GPUMilliResource)
	memoryResource = corev1.ResourceName(names.GPUMemoryResource)
)

// phase is where an allocation is on its way; see ledger.
type phase uint8

const (
	// assumed is from Reserve until the bound pod is seen.
	assumed phase = iota
	// bindingUnknown is assumed, and a Binding was sent that may have been written.
	bindingUnknown
	// leaked is bindingUnknown, and the scheduler has given the pod up: the NodeInfo
	// does not show it.
	leaked
	// bound is a pod whose record has been seen.
	bound
	// unrecorded is a bound pod that uses devices, and which is not known: it has
	// no record or one that cannot be believed.
	unrecorded
)

// podAllocation is what one pod holds. It does not change; the ledger replaces it.
type podAllocation struct {
	pod   *corev1.Pod
	node  string
	phase phase
	// allocation is what the pod was given; nil if it is unrecorded.
	allocation *device.Allocation
	// annotations are what the Binding is to write; nil once the pod is bound.
	annotations map[string]string
	// fence is what the pod's fence was when the devices were assumed; see ledger.fence.
	fence string
	// since is when the devices were assumed.
	since time.Time
}

// in returns the allocation in another phase.
func (h *podAllocation) in(p phase) *podAllocation {
	next := *h
	next.phase = p
	return &next
}

// podAllocations are a list that does not change.
type podAllocations []*podAllocation

// nodeInvalidation are what the ledger tells the views of one node.
type nodeInvalidation struct {
	// revision is raised when a view may not hold any more although the NodeInfo
	// is unchanged.
	revision atomic.Uint64
	// held is the number of pods that hold something here, without leaked ones.
	held   atomic.Int64
	leaked leakedList
	// gone is whether the node is: then the invalidation go with the last allocation. The ledger's
	// lock guards it.
	gone bool
}

// leakedList are the leaked allocations of one node; nearly always none.
type leakedList struct {
	list atomic.Pointer[podAllocations]
}

// Load returns the list as it is now.
func (o *leakedList) Load() *podAllocations { return o.list.Load() }

// has reports whether the pod is among them.
func (h *podAllocations) has(uid types.UID) bool {
	return h != nil && slices.ContainsFunc(*h, func(o *podAllocation) bool { return o.pod.UID == uid })
}

// all returns them.
func (h *podAllocations) all() podAllocations {
	if h == nil {
		return nil
	}
	return *h
}

// add and remove are called with the ledger's lock held.
func (o *leakedList) add(h *podAllocation) {
	list := append(slices.Clone(o.Load().all()), h)
	o.list.Store(&list)
}

func (o *leakedList) remove(uid types.UID) {
	if !o.Load().has(uid) {
		return
	}
	list := slices.DeleteFunc(slices.Clone(o.Load().all()), func(h *podAllocation) bool { return h.pod.UID == uid })
	o.list.Store(&list)
}
