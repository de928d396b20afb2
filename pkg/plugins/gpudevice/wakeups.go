// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// What kube-scheduler has no event for wakes pods from here:
//
//   - Devices are released of a pod that was never seen bound. kube-scheduler has an event
//     where a pod goes that it knows to be on the node. It has none where another scheduler has
//     bound the pod elsewhere, or while no watch was open it was bound and deleted, or bound,
//     deleted and replaced by another one of its name, which kube-scheduler takes for the same.
//   - A node's capacity changes and nothing else of it. That makes a node valid: the kubelet
//     takes the devices of a device plugin that is gone out of allocatable at once and out of
//     capacity five minutes later. Until then it may be that the plugin restarts, and its pods
//     run on, so such a node is not judged by its allocatable.

// The pause before pending pods are activated, which skips their back-off, is kube-scheduler's
// own back-off (podInitialBackoffSeconds, podMaxBackoffSeconds): it begins with the first and is
// doubled, up to the second, as long as there is more to wake for.
const (
	initialWakeUpDelay = time.Second
	maxWakeUpDelay     = 10 * time.Second
)

// wakeUps gathers for which nodes pending pods are to be activated. Whatever happens meanwhile,
// each pod is activated once.
type wakeUps struct {
	mu sync.Mutex
	// nodes are those since the last time, nil if there are none.
	nodes sets.Set[string]
	// all is whether all pods with devices are to be woken.
	all   bool
	delay time.Duration
	last  time.Time
}

// wakeLater activates the pending pods that the node admits, after a pause.
func (pl *GPUDevice) wakeLater(node string) {
	if delay, first := pl.wakeUps.add(pl.clock.Now(), func(w *wakeUps) { w.nodes.Insert(node) }); first {
		pl.clock.AfterFunc(delay, pl.activatePendingPods)
	}
}

// wakeShares activates all pending pods that wait for devices, after a pause.
func (c *allocationCache) wakeShares() {
	for _, pl := range c.sharedBy() {
		if delay, first := pl.wakeUps.add(pl.clock.Now(), func(w *wakeUps) { w.all = true }); first {
			pl.clock.AfterFunc(delay, pl.activatePendingPods)
		}
	}
}

// add takes note of what to wake for, and reports whether that is the first since the last
// time, and how long to wait then.
func (w *wakeUps) add(now time.Time, what func(*wakeUps)) (delay time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer what(w)
	if w.nodes != nil {
		return 0, false
	}
	w.nodes = sets.New[string]()
	w.delay = min(max(2*w.delay, initialWakeUpDelay), maxWakeUpDelay)
	if now.Sub(w.last) > maxWakeUpDelay {
		w.delay = initialWakeUpDelay
	}
	w.last = now.Add(w.delay)
	return w.delay, true
}

// activatePendingPods sends the pending pods of the profile that wait for devices of the nodes
// back to the active queue. The queue remembers it for a pod that is being scheduled at this
// moment.
func (pl *GPUDevice) activatePendingPods() {
	w := &pl.wakeUps
	w.mu.Lock()
	names, all := w.nodes, w.all
	w.nodes, w.all = nil, false
	w.mu.Unlock()
	var nodes []*device.Node
	for name := range names {
		if node := pl.nodeNow(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	pl.activate(func(pod *corev1.Pod) bool { return all && pl.usesDevices(pod) || pl.mayUse(pod, nodes) })
}

// activate sends the pending pods of the profile that are wanted to the active queue.
func (pl *GPUDevice) activate(wanted func(pod *corev1.Pod) bool) {
	activated := map[string]*corev1.Pod{}
	for _, obj := range pl.allocations.pods.GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if ok && pod.Spec.NodeName == "" && pod.Spec.SchedulerName == pl.handle.ProfileName() && !podphase.IsTerminated(pod) && wanted(pod) {
			activated[klog.KObj(pod).String()] = pod
		}
	}
	if len(activated) > 0 {
		pl.logger.V(5).Info("Activating pending pods: devices were released, or nodes became valid", "pods", len(activated))
		pl.handle.Activate(pl.logger, activated)
	}
}

// mayUse reports whether the pod waits for devices, or for the absence of some, and one of the
// nodes could take it if it were empty.
func (pl *GPUDevice) mayUse(pod *corev1.Pod, nodes []*device.Node) bool {
	s, err := pl.parse(pod)
	return err == nil && !s.skipsFilter() && slices.ContainsFunc(nodes, s.admits)
}

// nodeNow returns what the node says of its devices, or nil if it is gone. It asks the
// informer's store, which is never behind an event; the view of the node may be, since Filter
// keeps none of a simulation.
func (pl *GPUDevice) nodeNow(name string) *device.Node {
	object, err := pl.allocations.nodes.Get(name)
	if err != nil {
		return nil // the lister's only error is that it is not there
	}
	published := pl.publishedSlices.on(object)
	if cell := pl.nodes.get(name); cell != nil {
		if v := cell.view.Load(); v != nil && v.object == object && v.publishedByDRA == published {
			return v.node
		}
	}
	return pl.parseNode(object, published)
}

// parseNode parses a node's object.
func (pl *GPUDevice) parseNode(object *corev1.Node, publishedByDRA bool) *device.Node {
	node := device.ParseNode(object, pl.nodeKeys)
	if publishedByDRA {
		return node.PublishedByDRA()
	}
	return node
}

// wakeAfterRelease wakes the pods that may use what was released, if anything was.
func (c *allocationCache) wakeAfterRelease(released *podAllocation) {
	if released == nil {
		return
	}
	for _, pl := range c.sharedBy() {
		pl.wakeLater(released.node)
	}
}

// wakeAfterCapacityChange wakes the pods that may use a node of which nothing has changed but
// its capacity.
func (c *allocationCache) wakeAfterCapacityChange(old, node *corev1.Node) {
	if apiequality.Semantic.DeepEqual(old.Status.Capacity, node.Status.Capacity) || !apiequality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
		return
	}
	for _, pl := range c.sharedBy() {
		if device.ParseNode(old, pl.nodeKeys).Kind != device.ParseNode(node, pl.nodeKeys).Kind {
			pl.wakeLater(node.Name)
		}
	}
}
