// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// sharedAllocationCacheKey is the key under which plugin.Shared keeps the cache of a
// scheduler instance with its pod informer.
const sharedAllocationCacheKey = Name + "/allocations"

// sharedAllocationCache returns the cache that the profiles of the handle's scheduler instance
// share, and makes one if it is the first to ask.
func sharedAllocationCache(ctx context.Context, handle fwk.Handle) (*allocationCache, error) {
	core := handle.SharedInformerFactory().Core().V1()
	pods := core.Pods().Informer()
	return plugin.Shared(pods, sharedAllocationCacheKey, func() (*allocationCache, error) {
		l := &allocationCache{
			ctx:        ctx,
			clock:      clock.RealClock{},
			client:     handle.ClientSet(),
			config:     handle.KubeConfig(),
			identity:   uuid.NewUUID(),
			pods:       pods,
			nodes:      core.Nodes().Lister(),
			byNode:     map[string]map[types.UID]*podAllocation{},
			nodeStates: map[string]*nodeState{},
		}
		logger := klog.FromContext(ctx)
		options := cache.HandlerOptions{Logger: &logger}
		registration, err := pods.AddEventHandlerWithOptions(l.podHandler(logger), options)
		if err != nil {
			return nil, fmt.Errorf("watching pods: %w", err)
		}
		l.synced = registration.HasSyncedChecker()
		if _, err := core.Nodes().Informer().AddEventHandlerWithOptions(l.nodeHandler(logger), options); err != nil {
			return nil, fmt.Errorf("watching nodes: %w", err)
		}
		return l, nil
	})
}

// join adds a profile's plugin to those that share the cache. Of the nodes that are
// there already, the handler has told those that joined before.
func (c *allocationCache) join(pl *GPUDevice) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes {
		pl.deviceNodes.observe(node, pl.nodeKeys)
	}
	c.plugins = append(c.plugins, pl)
	return nil
}

// sharedBy returns the plugins that share the cache.
func (c *allocationCache) sharedBy() []*GPUDevice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plugins
}

// observeNode lets the plugins take note of a version of a node.
func (c *allocationCache) observeNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.nodeStates[node.Name]; state != nil {
		state.gone = false
	}
	for _, pl := range c.plugins {
		pl.deviceNodes.observe(node, pl.nodeKeys)
	}
}

func (c *allocationCache) podHandler(logger klog.Logger) cache.ResourceEventHandler {
	return plugin.EventHandler(func(old, pod *corev1.Pod) {
		if pod == nil {
			if released := c.removePod(old.UID); released != nil && released.neverBound() {
				c.wakeAfterRelease(released)
			}
			c.release(old.UID)
			c.forgetSeen(old.UID)
			return
		}
		if old != nil && boundAnew(old, pod) {
			c.wakeAfterRelease(c.removePod(old.UID))
			old = nil
		}
		s := c.observe(pod)
		keptBack := c.kept.get(pod.UID) != nil // a former process may have bound it at any time
		c.observePending(pod)
		c.wakeAfterRelease(s.released)
		c.report(logger, pod, s)
		if s.first && s.problem == nil && old != nil && old.Spec.NodeName == "" && !keptBack {
			c.noteOtherInstance(logger, s.held)
		}
		if old != nil && s.held != nil && !s.first && recordChanged(old, pod) {
			c.reportEdit(logger, pod)
		}
	})
}

// observePending takes note of who has fenced a pending pod, and of one that is kept back and
// pending no more.
func (c *allocationCache) observePending(pod *corev1.Pod) {
	switch {
	case !device.HasShareRequest(pod):
	case !c.mayBeBoundByAnother(pod):
		c.release(pod.UID)
	case fenceTokenOf(pod) != "" && c.startup.prepared.Load() && c.kept.get(pod.UID) == nil && c.servedBy(pod) != nil:
		_ = c.heedToken(pod) // whoever binds asks again
	}
}

func (c *allocationCache) nodeHandler(logger klog.Logger) cache.ResourceEventHandler {
	return plugin.EventHandler(func(old, node *corev1.Node) {
		if node == nil {
			c.removeNode(old.Name)
			return
		}
		c.observeNode(node)
		if old != nil {
			c.wakeAfterCapacityChange(old, node)
			if old.Labels[names.GPUPoolLabel] != node.Labels[names.GPUPoolLabel] {
				c.forgetOtherInstances(node.Name)
			}
		}
		if old == nil || nodeDevicesMayDiffer(old, node) {
			c.noteSharing(old, node)
			c.reportNode(logger, old, node)
		}
	})
}

// noteSharing takes note of whether a node stops sharing its devices, or begins again. To one that
// has stopped, a former process may still have the Binding of a share on its way.
func (c *allocationCache) noteSharing(old, node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old == nil || len(c.plugins) == 0 {
		return
	}
	shares := c.parseLocked(node).Kind == device.NodeShared
	if shared := c.parseLocked(old).Kind == device.NodeShared; shared == shares {
		return
	}
	state := c.getOrCreateNodeStateLocked(node.Name)
	state.stoppedSharing.Store(!shares)
	c.raiseRevisionLocked(node.Name, state)
}

// forgetSeen lets the plugins' learners go of a pod that is gone.
func (c *allocationCache) forgetSeen(uid types.UID) {
	for _, pl := range c.sharedBy() {
		pl.workload.learner.forgetSeen(uid)
	}
}
