// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// A node belongs to one pool, and a pool to one scheduler instance: two that share the same
// devices would each give the last share. What the installation promises (a lock for each
// pool in the chart) this file does not rely on. Two things are left for it:
//
//   - A node changes its pool while a pod is on its way there. Bind asks again what the
//     informer says of the node, before each Binding that it sends. A Binding that was
//     sent before counts by its record in the new pool as soon as it is seen there.
//   - Two instances were given the same pool. The first share that another one is seen to
//     give closes the node (noteOtherInstance).

// reasonPoolConflict is the reason of the Warning event on a node of the pool on which another
// scheduler instance gives shares.
const reasonPoolConflict = "GPUPoolConflict"

// errNotOffered is why a Binding is not sent.
var errNotOffered = errors.New("the node does not share its devices in this scheduler's GPU pool any more, the pod is tried again")

// offers reports whether the node, as far as the informer knows, is still one whose devices
// this scheduler shares. One that contradicts itself for the moment is: what was
// reserved there stays good.
func (pl *GPUDevice) offers(name string) bool {
	node, err := pl.allocations.nodes.Get(name)
	if err != nil {
		return true // it is gone, which the API server finds out
	}
	kind := device.ParseNode(node, pl.nodeKeys).Kind
	return kind == device.NodeShared || kind == device.NodeInvalid
}

// noteOtherInstance closes the node of a pod that was pending and now has a share by a
// scheduler that this instance does not serve: no process of this instance gave it. A node
// that another one serves too takes nothing from this one until the pod is gone, or the
// label of the pool changes.
//
// Only a Binding that was written after this process had prepared is such a proof. Before, a
// process of this instance with profiles of other names may have led; the fence refuses
// what that one has on its way. The handler may see an earlier Binding later: the version
// of the pod decides, not the time.
func (c *allocationCache) noteOtherInstance(logger klog.Logger, h *podAllocation) {
	if !c.startup.prepared.Load() || c.serves(h.pod.Spec.SchedulerName) {
		return
	}
	if later, ok := isBehind(c.startup.version, h.pod.ResourceVersion); ok && !later {
		return
	}
	node := c.closeToOtherInstance(h)
	if node == nil {
		return
	}
	logger.Info("Another scheduler gives shares of a node of this scheduler's GPU pool, the node takes no new shares", "node", klog.KObj(node), "pod", klog.KObj(h.pod), "schedulerName", h.pod.Spec.SchedulerName)
	ours := c.sharedBy()[0].handle.ProfileName()
	c.warn(node, h.pod, reasonPoolConflict, actionTracking, fmt.Sprintf(
		"Scheduler %q gave pod %s a share of this node, and %q gives shares here too: both serve GPU pool %q. %[3]q gives no new share of this node until the pod is gone. Give each scheduler a pool of its own: GPUDeviceArgs.pool, and label %[5]s on its nodes.",
		h.pod.Spec.SchedulerName, klog.KObj(h.pod), ours, node.Labels[names.GPUPoolLabel], names.GPUPoolLabel))
}

// serves reports whether a profile of this process has the name.
func (c *allocationCache) serves(schedulerName string) bool {
	return slices.ContainsFunc(c.sharedBy(), func(pl *GPUDevice) bool { return pl.handle.ProfileName() == schedulerName })
}

// closeToOtherInstance marks the allocation as another instance's, and returns its node; nil if
// the node is not of the pool or the pod is gone meanwhile.
func (c *allocationCache) closeToOtherInstance(h *podAllocation) *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.nodes.Get(h.node)
	if err != nil || c.parsedNode(h.node).Kind != device.NodeShared || c.get(h.pod.UID) != h {
		return nil
	}
	c.markLocked(h, true)
	return node
}

// forgetOtherInstances opens a node again whose label says that it is of another pool now.
func (c *allocationCache) forgetOtherInstances(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.byNode[node] {
		if h.otherInstance {
			c.markLocked(h, false)
		}
	}
}

// markLocked says whether a pod's share was given by another instance.
func (c *allocationCache) markLocked(h *podAllocation, otherInstance bool) {
	next := *h
	next.otherInstance = otherInstance
	c.putLocked(&next)
	c.raiseRevisionLocked(h.node, c.getOrCreateNodeStateLocked(h.node))
}
