// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// nominator remembers which pods are nominated for which node. It is written
// between cycles only, so that filters read it without a lock.
type nominator struct {
	byNode map[string][]fwk.PodInfo
	nodes  map[types.UID]string
}

var _ fwk.PodNominator = &nominator{}

func newNominator() *nominator {
	return &nominator{byNode: map[string][]fwk.PodInfo{}, nodes: map[types.UID]string{}}
}

// AddNominatedPod adds a pod, or moves it to another node.
func (n *nominator) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	n.DeleteNominatedPodIfExists(pod.GetPod())
	node := pod.GetPod().Status.NominatedNodeName
	if info != nil && info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	if node == "" {
		return
	}
	n.byNode[node] = append(n.byNode[node], pod)
	n.nodes[pod.GetPod().UID] = node
}

// DeleteNominatedPodIfExists removes a pod.
func (n *nominator) DeleteNominatedPodIfExists(pod *corev1.Pod) {
	node, ok := n.nodes[pod.UID]
	if !ok {
		return
	}
	delete(n.nodes, pod.UID)
	n.byNode[node] = slices.DeleteFunc(n.byNode[node], func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
}

// UpdateNominatedPod replaces a pod, which keeps its nomination if it has none of
// its own.
func (n *nominator) UpdateNominatedPod(logger klog.Logger, oldPod *corev1.Pod, updated fwk.PodInfo) {
	node := n.nodes[oldPod.UID]
	n.DeleteNominatedPodIfExists(oldPod)
	n.AddNominatedPod(logger, updated, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}

// NominatedPodsForNode returns the pods that are nominated for the node.
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n.byNode[node] }

// empty reports whether no pod is nominated anywhere.
func (n *nominator) empty() bool { return len(n.nodes) == 0 }

// activator is the PodActivator of an engine. There is no queue in which a pod
// could be moved; but a pod that a plugin activates in its own cycle is tried
// again.
type activator struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

// Activate takes note of the pods.
func (a *activator) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uids == nil {
		a.uids = map[types.UID]struct{}{}
	}
	for _, pod := range pods {
		a.uids[pod.UID] = struct{}{}
	}
}

// has reports whether the pod was activated since forget was called.
func (a *activator) has(pod *corev1.Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.uids[pod.UID]
	return ok
}

// forget drops what was noted before a pod's turn, of whatever pod.
func (a *activator) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.uids)
}

// Warning is an event of type Warning that a plugin recorded, for example that a
// node takes no new shares because of a pod without a record.
type Warning struct {
	// Object is what the event is about, as kind and namespace/name.
	Object string
	// Reason and Note are those of the event.
	Reason, Note string
}

// maxWarnings bounds what is kept of the events.
const maxWarnings = 1000

// recorder keeps the warnings that plugins record, and drops all other events.
type recorder struct {
	mu       sync.Mutex
	warnings []Warning
	dropped  int
}

var _ events.EventRecorderLogger = &recorder{}

// Eventf records an event.
func (r *recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	if eventType != corev1.EventTypeWarning {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.warnings) >= maxWarnings {
		r.dropped++
		return
	}
	object := fmt.Sprintf("%T", regarding)
	if accessor, err := meta.Accessor(regarding); err == nil {
		object = klog.KRef(accessor.GetNamespace(), accessor.GetName()).String()
	}
	r.warnings = append(r.warnings, Warning{Object: object, Reason: reason, Note: fmt.Sprintf(note, args...)})
}

// WithLogger returns the recorder: it does not log.
func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
