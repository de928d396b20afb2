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
	uids sync.Map // the pods since it was last cleared
}

// Activate takes note of the pods.
func (a *activator) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		a.uids.Store(pod.UID, nil)
	}
}

// maxWarnings bounds what is kept of the events.
const maxWarnings = 1000

// warningRecorder keeps the Warning events that plugins record, for example that a
// node takes no new shares because of a pod without a record, and drops all others.
type warningRecorder struct {
	mu       sync.Mutex
	warnings []string
	dropped  int
}

var _ events.EventRecorderLogger = &warningRecorder{}

// Eventf records an event as "NAMESPACE/NAME: NOTE (REASON)".
func (r *warningRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
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
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s (%s)", object, fmt.Sprintf(note, args...), reason))
}

// lines returns what was recorded, and how much was dropped.
func (r *warningRecorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := slices.Clone(r.warnings)
	if r.dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d further warnings of plugins were not kept", r.dropped))
	}
	return lines
}

// WithLogger returns the recorder: it does not log.
func (r *warningRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
