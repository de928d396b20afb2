// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/device"
)

// ledger is what a scheduler instance must remember of devices beyond its
// NodeInfos. All profiles of the instance share one, because they share nodes.
//
// The bound pods are the truth, and the NodeInfos hold them: what is free on a
// node is computed from there. Two things they cannot tell, and the ledger does:
// which devices a pod was promised that is not seen bound yet, and what a pod's
// record said when it was first seen.
//
//	         Reserve           Binding sent, no clear answer
//	(absent) ───────> reserved ─────────────────────────────> inDoubt
//	    ^   Unreserve  │   ^            clear answer             │  │ Unreserve
//	    ├──────────────┤   └─────────────────────────────────────┘  v
//	    │              │ seen bound                              orphaned
//	    │              v                                            │
//	    │      bound, unassigned <──────────────────────────────────┤
//	    └───────── deleted, terminated ─────────────────────────────┘
//	               (a ghost, if it was not seen bound before)
//
// A pod of whose end or node the informer has told is not reserved any more.
//
// Assumptions: a UID never comes back; the informer delivers the versions of a
// pod in order; a pod's node never changes. A pod in the NodeInfo counts with
// what the ledger holds for it, and with its own record if the ledger has not
// heard of it yet. An orphan counts whether or not a NodeInfo shows it. All others
// count only while a NodeInfo shows them, so a late or early event of the
// ledger's own informer handler neither frees a device nor takes one.
type ledger struct {
	clock  clock.PassiveClock
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	nodes  corelisters.NodeLister
	// synced is done when the handler has seen every pod of the first list.
	synced cache.DoneChecker
	leader leaderWait

	// holders are *holder by the UID of their pod. Read without the lock, written
	// with it held.
	holders sync.Map
	// ghosts are the nodes, by UID, of pods that went before they were seen bound.
	// The scheduler's cache may show such a pod for good: it forgets an assumed pod
	// only at the end of a failed cycle or when it is told of its deletion, and of a
	// pod that was replaced by one of the same name while the watch was broken it
	// is told an update. Read and written like holders.
	ghosts sync.Map

	// mu guards what follows, and writing above.
	mu sync.Mutex
	// byNode has the holders that are not orphaned, by node.
	byNode map[string]map[types.UID]*holder
	marks  map[string]*nodeMarks
	// members are the plugins that share the ledger, one for each profile.
	members []*GPUDevice
}

// marksOf returns the marks of a node.
func (l *ledger) marksOf(node string) *nodeMarks {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marksLocked(node)
}

func (l *ledger) marksLocked(node string) *nodeMarks {
	marks, ok := l.marks[node]
	if !ok {
		marks = &nodeMarks{}
		l.marks[node] = marks
	}
	return marks
}

// get returns what is held for the pod, or nil.
func (l *ledger) get(uid types.UID) *holder {
	if value, ok := l.holders.Load(uid); ok {
		if h, ok := value.(*holder); ok {
			return h
		}
	}
	return nil
}

// holdingOf returns what a pod in the NodeInfo of the node holds. It is nil and
// true for a pod of which that cannot be known, and false for one that nothing
// is known of yet: it is not bound.
func (l *ledger) holdingOf(pod *corev1.Pod, node string) (*device.Holding, bool) {
	if h := l.get(pod.UID); h != nil && h.node == node {
		if h.phase == unassigned {
			return nil, true
		}
		return &h.holding, true
	}
	if pod.Spec.NodeName == "" {
		return nil, false
	}
	if _, gone := l.ghosts.Load(pod.UID); gone {
		return &device.Holding{}, true
	}
	assignment, request, err := recordOf(pod)
	if err != nil {
		return nil, true
	}
	holding := assignment.Holding(request.Asks)
	return &holding, true
}

// recordOf returns what a bound pod was given according to its annotations, and
// what it asks for.
func recordOf(pod *corev1.Pod) (device.Assignment, *device.Request, error) {
	// Constraints are about choosing a node, which is over; an annotation that
	// was spoilt since must not make the record worthless.
	bare := &corev1.Pod{Spec: pod.Spec}
	request, err := device.ParsePod(bare, nil)
	if err != nil {
		return device.Assignment{}, nil, err
	}
	assignment, err := device.ParseAssignment(pod.Annotations, request)
	return assignment, request, err
}

// reserve promises devices to a pod, and reports whether it has: nothing would
// ever end the promise to a pod of whose end the informer has told already. Its
// Binding may well be written: the API server binds a pod that has terminated
// without a node, and the informer, which leaves terminated pods out, never shows it.
func (l *ledger) reserve(pod *corev1.Pod, node string, assignment *device.Assignment, request *device.Request, annotations map[string]string) bool {
	h := &holder{
		pod: pod, node: node, phase: reserved,
		assignment: *assignment, holding: assignment.Holding(request.Asks),
		annotations: annotations, since: l.clock.Now(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.get(pod.UID); known != nil && (known.phase == bound || known.phase == unassigned) {
		return false
	}
	l.removeLocked(pod.UID)
	l.storeLocked(h)
	l.marksLocked(node).revision.Add(1)
	// The informer's store changes before its handlers are told. So either the end
	// of the pod shows here, or the handler will find the promise and drop it.
	if !l.isPending(pod) {
		l.removeLocked(pod.UID)
		l.marksLocked(node).revision.Add(1) // a view may have counted it meanwhile
		return false
	}
	return true
}

// isPending reports whether the informer knows the pod, and no node of it.
func (l *ledger) isPending(pod *corev1.Pod) bool {
	obj, ok, err := l.pods.GetStore().GetByKey(cache.NewObjectName(pod.Namespace, pod.Name).String())
	if err != nil || !ok {
		return false // the store of an informer has no errors
	}
	stored, ok := obj.(*corev1.Pod)
	return ok && stored.UID == pod.UID && stored.Spec.NodeName == "" && !isTerminated(stored)
}

// unreserve takes a promise back. It may be called any number of times. What may
// have been written to the API stays taken, and what is bound is not a promise.
func (l *ledger) unreserve(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The cycle has ended: the cache is about to forget the pod.
	l.ghosts.Delete(uid)
	h := l.get(uid)
	if h == nil {
		return
	}
	switch h.phase {
	case reserved:
		l.removeLocked(uid)
	case inDoubt:
		l.removeLocked(uid)
		h = h.in(orphaned)
		l.holders.Store(uid, h)
		l.marksLocked(h.node).orphans.add(h)
	case orphaned, bound, unassigned:
		return
	}
	l.marksLocked(h.node).revision.Add(1)
}

// doubt says whether a Binding of the pod may have been written.
func (l *ledger) doubt(uid types.UID, doubtful bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.get(uid)
	switch {
	case h == nil:
	case h.phase == reserved && doubtful:
		l.storeLocked(h.in(inDoubt))
	case h.phase == inDoubt && !doubtful:
		l.storeLocked(h.in(reserved))
	}
}

// seen is what observe found.
type seen struct {
	// holder is the pod's; nil if the pod holds nothing.
	holder *holder
	// first is whether the pod was not known to be bound before.
	first bool
	// problem is why the pod is unassigned, nil if it is not.
	problem error
	// overfull are the devices of the node that the pod shares with others and of
	// which more is held than they have, and rivals the pods on them.
	overfull device.Set
	rivals   []*corev1.Pod
}

// observe takes note of a version of a pod that the informer delivered. The first
// version that is bound decides what the pod holds.
func (l *ledger) observe(pod *corev1.Pod) seen {
	if pod.Spec.NodeName == "" || !asksForShares(pod) {
		return seen{}
	}
	if isTerminated(pod) {
		l.drop(pod.UID)
		return seen{}
	}
	if h := l.get(pod.UID); h != nil && (h.phase == bound || h.phase == unassigned) {
		return seen{holder: h}
	}
	h := &holder{pod: pod, node: pod.Spec.NodeName, phase: bound}
	assignment, request, err := recordOf(pod)
	if err != nil {
		h.phase = unassigned
	} else {
		h.assignment, h.holding = assignment, assignment.Holding(request.Asks)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	promised := l.get(pod.UID)
	l.removeLocked(pod.UID)
	l.storeLocked(h)
	// As promised, as a rule; then no view has to be computed again.
	if promised == nil || promised.phase == orphaned || promised.node != h.node || promised.holding != h.holding {
		l.marksLocked(h.node).revision.Add(1)
	}
	s := seen{holder: h, first: true, problem: err}
	if err == nil {
		s.overfull, s.rivals = l.rivalsLocked(h)
	}
	return s
}

// rivalsLocked returns the devices of h of which more is held than there is, by
// bound pods alone, and all the pods on them.
func (l *ledger) rivalsLocked(h *holder) (overfull device.Set, rivals []*corev1.Pod) {
	memory := l.deviceMemory(h.node)
	for d := range h.holding {
		if h.holding[d] == (device.Share{}) {
			continue
		}
		var sum device.Share
		for _, other := range l.byNode[h.node] {
			if other.phase == bound {
				sum.Milli += other.holding[d].Milli
				sum.MemoryMiB += other.holding[d].MemoryMiB
			}
		}
		if sum.Milli > device.MilliPerDevice || memory > 0 && sum.MemoryMiB > memory {
			overfull = overfull.With(d)
		}
	}
	if overfull == 0 {
		return 0, nil
	}
	for _, other := range l.byNode[h.node] {
		for d := range overfull.All() {
			if other.phase == bound && other.holding[d] != (device.Share{}) {
				rivals = append(rivals, other.pod)
				break
			}
		}
	}
	return overfull, rivals
}

// deviceMemory returns the memory of each device of the node in MiB; 0 if the
// node is not known or does not say.
func (l *ledger) deviceMemory(node string) int64 {
	if len(l.members) == 0 {
		return 0
	}
	object, err := l.nodes.Get(node)
	if err != nil {
		return 0 // the lister's only error is that the node is not there
	}
	return device.ParseNode(object, l.members[0].nodeKeys).MemoryMiB
}

// drop forgets a pod that is gone or has terminated.
func (l *ledger) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.get(uid)
	if h == nil {
		return
	}
	l.removeLocked(uid)
	if h.phase == reserved || h.phase == inDoubt {
		l.ghosts.Store(uid, h.node)
	}
	l.marksLocked(h.node).revision.Add(1)
}

// nodeGone forgets a node, unless pods there still hold devices: then it may be
// back under the same name.
func (l *ledger) nodeGone(node string) {
	l.mu.Lock()
	marks := l.marks[node]
	if marks != nil && len(l.byNode[node]) == 0 && len(marks.orphans.Load().all()) == 0 {
		// First the marks, then the cells: a cell that is made in between has the
		// new marks.
		delete(l.marks, node)
	}
	l.ghosts.Range(func(uid, on any) bool {
		if on == node {
			l.ghosts.Delete(uid)
		}
		return true
	})
	members := l.members
	l.mu.Unlock()
	for _, member := range members {
		member.nodes.remove(node)
		member.deviceNodes.remove(node)
	}
}

// storeLocked adds or replaces a holder that is not orphaned.
func (l *ledger) storeLocked(h *holder) {
	l.holders.Store(h.pod.UID, h)
	if l.byNode[h.node] == nil {
		l.byNode[h.node] = map[types.UID]*holder{}
	}
	l.byNode[h.node][h.pod.UID] = h
}

func (l *ledger) removeLocked(uid types.UID) {
	h := l.get(uid)
	if h == nil {
		return
	}
	l.holders.Delete(uid)
	delete(l.byNode[h.node], uid)
	if len(l.byNode[h.node]) == 0 {
		delete(l.byNode, h.node)
	}
	if marks, ok := l.marks[h.node]; ok {
		marks.orphans.remove(uid)
	}
}
