// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// podKey identifies a pod in the queue. Which pod of that name is meant, the
// cluster knows by UID.
type podKey = types.NamespacedName

// cluster is all that the binder knows: the nodes, the pods that wait for one,
// and what the nodes hold. It is fed by watch events through apply and remove
// methods that may be called with the same object again. Every method is safe
// for concurrent use; those that may make a parked pod schedulable return the
// pods to try again.
type cluster struct {
	fit Fit
	// wanted reports whether a pod is one that this binder is to bind, apart
	// from its having a node already.
	wanted func(*corev1.Pod) bool

	mu sync.Mutex
	// The fields below are guarded by mu.

	rng *rand.Rand
	// nodes is sorted by name, so that a seed and an order of pods determine
	// the choice.
	nodes   []*corev1.Node
	pending map[podKey]*pendingPod
	parked  map[podKey]struct{}
	// held is what nodes hold.
	held *holdings
	// eligible is scratch space of choose.
	eligible []*corev1.Node
}

// pendingPod is a wanted pod that the watch has not shown with a node yet.
type pendingPod struct {
	pod *corev1.Pod
	ask ask
	// node is what was chosen; empty if nothing was, or the choice was refused.
	node string
	// inDoubt says that a Binding to node was sent and its outcome is unknown.
	inDoubt bool
	// doubted says that an earlier Binding, to a node that was given up since,
	// was in doubt once: a node that the pod turns out to have may be its work.
	doubted bool
	// settled says that nothing is left to do but wait for the watch.
	settled bool
}

// choice is the result of choose. Without a pod there is nothing to do, without
// a node no node may take the pod, and the pod is parked.
type choice struct {
	pod  *corev1.Pod
	node string
	// again says that an earlier Binding of this pod, to node or to one that was
	// given up, had no clear outcome.
	again bool
	// ask says that the Binding to node is in doubt and node no longer admits
	// the pod: the API server is to be asked whether the pod has a node, and no
	// Binding to be sent.
	ask bool
	// eligible of nodes could have been chosen.
	eligible, nodes int
	// message says why there is no node.
	message string
}

func newCluster(fit Fit, rng *rand.Rand, wanted func(*corev1.Pod) bool) *cluster {
	return &cluster{
		fit:     fit,
		wanted:  wanted,
		rng:     rng,
		pending: map[podKey]*pendingPod{},
		parked:  map[podKey]struct{}{},
		held:    newHoldings(fit),
	}
}

// choose draws a node for the pod of that key, each eligible one with the same
// probability, and counts the pod as being there from now on. While a Binding is
// in doubt, it returns the node of that Binding and no other.
func (c *cluster) choose(logger klog.Logger, key podKey) choice {
	c.mu.Lock()
	defer c.mu.Unlock()

	p, ok := c.pending[key]
	if !ok || p.settled || (p.node != "" && !p.inDoubt) {
		return choice{}
	}
	delete(c.parked, key)
	if p.inDoubt {
		return choice{pod: p.pod, node: p.node, again: true, ask: !c.stillAdmits(logger, p), eligible: 1, nodes: len(c.nodes)}
	}

	c.eligible = c.eligible[:0]
	for _, node := range c.nodes {
		if p.ask.check(logger, c.fit, node, c.held.used(node.Name)) == admitted {
			c.eligible = append(c.eligible, node)
		}
	}
	if len(c.eligible) == 0 {
		c.parked[key] = struct{}{}
		message := p.ask.explain(logger, c.fit, c.nodes, c.held.used)
		return choice{pod: p.pod, nodes: len(c.nodes), message: message}
	}
	p.node = c.eligible[c.rng.IntN(len(c.eligible))].Name
	c.held.hold(p.pod.UID, p.node, p.ask.requests)
	return choice{pod: p.pod, node: p.node, again: p.doubted, eligible: len(c.eligible), nodes: len(c.nodes)}
}

// stillAdmits reports whether the node of a Binding in doubt would be eligible
// again. The pod's own holding there does not count against it.
func (c *cluster) stillAdmits(logger klog.Logger, p *pendingPod) bool {
	i, found := c.nodeIndex(p.node)
	if !found {
		return false
	}
	fit := c.fit
	if fit == FitResources {
		fit = FitConstraints
	}
	return p.ask.check(logger, fit, c.nodes[i], nil) == admitted
}

// doubt records that the outcome of the last Binding is unknown. The node stays
// chosen, and what the pod asks for stays taken.
func (c *cluster) doubt(key podKey, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pending[key]; ok && p.pod.UID == uid {
		p.inDoubt = true
	}
}

// refuse records that the API server did not bind the pod: it refused, or it
// shows the pod without a node after a Binding in doubt. It returns the pods to
// try again, now that the node holds less.
func (c *cluster) refuse(key podKey, uid types.UID) []podKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pending[key]
	if !ok || p.pod.UID != uid {
		return nil
	}
	p.doubted = p.doubted || p.inDoubt
	c.unassign(p)
	return c.wakeIfFreed(true)
}

// settle records what a read of the pod has shown: that it has a node, or, with
// an empty node, that nobody will bind it any more. The watch tells the same
// later. It returns the pods to try again.
func (c *cluster) settle(key podKey, uid types.UID, node string) []podKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pending[key]
	if !ok || p.pod.UID != uid {
		return nil
	}
	moved := p.node != node
	c.unassign(p)
	p.settled = true
	if node != "" {
		p.node = node
		c.held.hold(uid, node, p.ask.requests)
	}
	return c.wakeIfFreed(moved)
}

// unassign takes back a choice.
func (c *cluster) unassign(p *pendingPod) {
	if p.node != "" {
		c.held.release(p.pod.UID)
	}
	p.node, p.inDoubt = "", false
}

// applyPod takes in a pod that was added or changed. It returns the pods to try:
// this one if it is new or its spec changed, others if it holds less than it
// did.
func (c *cluster) applyPod(pod *corev1.Pod) []podKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := podKey{Namespace: pod.Namespace, Name: pod.Name}
	p := c.pending[key]
	if p != nil && p.pod.UID != pod.UID {
		// The name was used again, and the watch skipped the removal.
		c.removeLocked(key, p.pod.UID)
		p = nil
	}
	switch {
	case isTerminal(pod):
		return c.wakeIfFreed(c.removeLocked(key, pod.UID))
	case pod.Spec.NodeName != "":
		c.forget(key)
		return c.wakeIfFreed(c.held.hold(pod.UID, pod.Spec.NodeName, c.held.requests(pod)))
	case !c.wanted(pod):
		// Gated, being deleted, or another scheduler's. What it may hold, in
		// doubt, it holds until it is gone.
		c.forget(key)
		return nil
	case p != nil && equality.Semantic.DeepEqual(p.pod.Spec, pod.Spec):
		p.pod = pod
		return nil
	}
	if p == nil {
		p = &pendingPod{}
		c.pending[key] = p
	}
	p.pod = pod
	p.ask = ask{
		tolerations: pod.Spec.Tolerations,
		affinity:    nodeaffinity.GetRequiredNodeAffinity(pod),
		requests:    c.held.requests(pod),
	}
	delete(c.parked, key)
	return []podKey{key}
}

// removePod takes in that a pod is gone, or no longer one that is watched. It
// returns the pods to try again.
func (c *cluster) removePod(pod *corev1.Pod) []podKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wakeIfFreed(c.removeLocked(podKey{Namespace: pod.Namespace, Name: pod.Name}, pod.UID))
}

// removeLocked forgets the pod and reports whether that left a node with less.
func (c *cluster) removeLocked(key podKey, uid types.UID) bool {
	if p, ok := c.pending[key]; ok && p.pod.UID == uid {
		c.forget(key)
	}
	return c.held.release(uid)
}

// forget drops the pod from those that wait; what it holds stays held.
func (c *cluster) forget(key podKey) {
	delete(c.pending, key)
	delete(c.parked, key)
}

// applyNode takes in a node that was added or changed. It returns the pods to
// try again: all that are parked, if the change can matter to a pod.
func (c *cluster) applyNode(node *corev1.Node) []podKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := c.nodeIndex(node.Name)
	if !found {
		c.nodes = slices.Insert(c.nodes, i, node)
		return c.wake()
	}
	old := c.nodes[i]
	c.nodes[i] = node
	if c.sameForPods(old, node) {
		return nil
	}
	return c.wake()
}

// removeNode takes in that a node is gone. That helps no pod.
func (c *cluster) removeNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, found := c.nodeIndex(name); found {
		c.nodes = slices.Delete(c.nodes, i, i+1)
	}
}

// nodeIndex returns where the node of that name is, or would be inserted.
func (c *cluster) nodeIndex(name string) (int, bool) {
	return slices.BinarySearchFunc(c.nodes, name, func(n *corev1.Node, name string) int {
		return strings.Compare(n.Name, name)
	})
}

// sameForPods reports whether two versions of a node admit the same pods: a
// heartbeat must not wake every parked pod.
func (c *cluster) sameForPods(a, b *corev1.Node) bool {
	return isReady(a) == isReady(b) &&
		a.Spec.Unschedulable == b.Spec.Unschedulable &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		(c.fit != FitResources || equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable))
}

// wake empties the parking lot and returns who was there.
func (c *cluster) wake() []podKey {
	if len(c.parked) == 0 {
		return nil
	}
	keys := make([]podKey, 0, len(c.parked))
	for key := range c.parked {
		keys = append(keys, key)
	}
	clear(c.parked)
	return keys
}

// wakeIfFreed is wake for an event about a pod: only with FitResources does
// what one pod leaves help another.
func (c *cluster) wakeIfFreed(freed bool) []podKey {
	if c.fit != FitResources || !freed {
		return nil
	}
	return c.wake()
}

// counts returns how many pods wait in all, and how many of them are parked.
func (c *cluster) counts() (waiting, parked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if p.node == "" || p.inDoubt {
			waiting++
		}
	}
	return waiting, len(c.parked)
}

// isTerminal reports whether the pod has finished, and holds nothing any more.
func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
