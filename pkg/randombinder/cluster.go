// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelpers "k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/messages"
)

// podKey names a pod. Which pod of that name is meant, the cluster knows by UID.
type podKey = cache.ObjectName

// cluster is all that the binder knows: the nodes, the pods of its watch, and what
// these take of the nodes. It is fed by watch events through apply and remove
// methods that may be called with the same object again, and queues the pods that
// an event may make schedulable. Every method is safe for concurrent use.
type cluster struct {
	options *Options
	// enqueue has a pod tried without waiting for its back-off.
	enqueue func(podKey)

	mu sync.Mutex
	// The fields below are guarded by mu.

	rng *rand.Rand
	// nodes is sorted by name, so that a seed and an order of pods determine
	// the choice.
	nodes []*corev1.Node
	pods  map[podKey]*podInfo
	// unschedulable are the pods that wait for a change in the cluster.
	unschedulable sets.Set[podKey]
	// requested is by node the sum of the requests of the pods assumed there.
	requested map[string]corev1.ResourceList
}

// podInfo is a watched pod.
type podInfo struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	// requests is nil unless the fit is FitResources.
	requests corev1.ResourceList
	// assumed are the nodes on which the requests are counted: the one that the
	// pod has, and until the watch shows that, each to which a Binding was sent and
	// not refused. The API server carries out one of those at most.
	assumed sets.Set[string]
}

// choice is the result of choose. Without a pod there is nothing to do; without
// a node none is feasible, and message says why.
type choice struct {
	pod             *corev1.Pod
	node            string
	feasible, nodes int
	message         string
	// again says that the pod was assumed on the node already.
	again bool
}

func newCluster(options *Options, rng *rand.Rand, enqueue func(podKey)) *cluster {
	return &cluster{
		options: options, rng: rng, enqueue: enqueue,
		pods: map[podKey]*podInfo{}, unschedulable: sets.New[podKey](), requested: map[string]corev1.ResourceList{},
	}
}

// isPending reports whether the pod is one that this binder is to bind.
func (c *cluster) isPending(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.Spec.SchedulerName == c.options.SchedulerName &&
		(len(c.options.Namespaces) == 0 || slices.Contains(c.options.Namespaces, pod.Namespace)) &&
		len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil
}

// choose draws a node for the pod of that key, each feasible one with the same
// probability, and assumes the pod there from now on.
func (c *cluster) choose(logger klog.Logger, key podKey) choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pods[key]
	if !ok || !c.isPending(p.pod) {
		return choice{}
	}
	c.unschedulable.Delete(key)
	feasible, reasons := make([]string, 0, len(c.nodes)), map[string]int{}
	for _, node := range c.nodes {
		if reason := c.filter(logger, p, node); reason == "" {
			feasible = append(feasible, node.Name)
		} else {
			reasons[reason]++
		}
	}
	if len(feasible) == 0 {
		c.unschedulable.Insert(key)
		return choice{pod: p.pod, message: c.explain(reasons)}
	}
	node := feasible[c.rng.IntN(len(feasible))]
	again := p.assumed.Has(node)
	c.assume(p, node)
	return choice{pod: p.pod, node: node, feasible: len(feasible), nodes: len(c.nodes), again: again}
}

// refused takes back a choice that the API server has certainly not carried out,
// unless an earlier Binding to the same node may still be.
func (c *cluster) refused(key podKey, made choice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pods[key]
	if ok && !made.again && p.pod.UID == made.pod.UID && p.pod.Spec.NodeName == "" {
		c.wake(c.forget(p, made.node))
	}
}

// assume counts the pod's requests on the node, if they are to be counted and are
// not yet.
func (c *cluster) assume(p *podInfo, node string) {
	if p.requests != nil && !p.assumed.Has(node) {
		p.assumed.Insert(node)
		c.requested[node] = quota.Add(c.requested[node], p.requests)
	}
}

// forget takes back what assume has counted, and reports whether that was anything.
func (c *cluster) forget(p *podInfo, nodes ...string) bool {
	before := p.assumed.Len()
	for _, node := range nodes {
		if !p.assumed.Has(node) {
			continue
		}
		p.assumed.Delete(node)
		c.requested[node] = quota.Subtract(c.requested[node], p.requests)
		if quota.IsZero(c.requested[node]) {
			// Nodes come and go; their names must not stay.
			delete(c.requested, node)
		}
	}
	return p.assumed.Len() < before
}

// applyPod takes in a pod that was added or changed. It queues the pod if it is
// new or its spec changed, and others if it takes less than it did.
func (c *cluster) applyPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cache.MetaObjectToName(pod)
	p := &podInfo{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), requests: c.podRequests(pod), assumed: sets.New[string]()}
	nodes := sets.New[string]()
	if pod.Spec.NodeName != "" {
		nodes.Insert(pod.Spec.NodeName)
	}
	changed, freed := true, false
	if old, found := c.pods[key]; found {
		same := old.pod.UID == pod.UID
		if same && pod.Spec.NodeName == "" {
			nodes = old.assumed.Clone()
		}
		changed = !same || !equality.Semantic.DeepEqual(old.pod.Spec, pod.Spec)
		freed = !nodes.IsSuperset(old.assumed) || !equality.Semantic.DeepEqual(old.requests, p.requests)
		c.forget(old, old.assumed.UnsortedList()...)
	}
	c.pods[key] = p
	for node := range nodes {
		c.assume(p, node)
	}
	c.wake(freed)
	pending := c.isPending(pod)
	if changed || !pending {
		c.unschedulable.Delete(key)
	}
	if changed && pending {
		c.enqueue(key)
	}
}

// removePod takes in that a pod is gone, or no longer one that is watched.
func (c *cluster) removePod(key podKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pods[key]; ok {
		delete(c.pods, key)
		c.unschedulable.Delete(key)
		c.wake(c.forget(p, p.assumed.UnsortedList()...))
	}
}

// applyNode takes in a node that was added or changed.
func (c *cluster) applyNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := c.nodeIndex(node.Name)
	if !found {
		c.nodes = slices.Insert(c.nodes, i, node)
		c.wake(true)
		return
	}
	old := c.nodes[i]
	c.nodes[i] = node
	// A heartbeat must not wake every unschedulable pod.
	c.wake(isReady(old) != isReady(node) || old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable))
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

// wake queues the unschedulable pods if a change may help them.
func (c *cluster) wake(helps bool) {
	if helps {
		for key := range c.unschedulable {
			c.enqueue(key)
		}
		clear(c.unschedulable)
	}
}

// counts returns how many pods wait in all, and how many of them for a change in
// the cluster.
func (c *cluster) counts() (pending, unschedulable int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		if c.isPending(p.pod) {
			pending++
		}
	}
	return pending, c.unschedulable.Len()
}

// filter returns the first reason why the node is not feasible for the pod, "" if it is.
func (c *cluster) filter(logger klog.Logger, p *podInfo, node *corev1.Node) string {
	if !isReady(node) {
		return "not ready (kubectl describe node says why)"
	}
	if c.options.Fit == FitNone {
		return ""
	}
	// A cordon holds for every pod. kube-scheduler lets a pod that tolerates the
	// unschedulable taint pass; who drains a node wants no random pod on it.
	if node.Spec.Unschedulable {
		return "cordoned (kubectl uncordon)"
	}
	// The comparison operators of tolerations are alpha, and off.
	taint, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, p.pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
	if untolerated {
		return "with taint " + taint.ToString() + " that the pod does not tolerate (add to spec.tolerations, or remove the taint)"
	}
	if matches, err := p.affinity.Match(node); err != nil || !matches {
		return "not matching the pod's nodeSelector or required node affinity (label a node, or recreate the pod)"
	}
	// What is counted on the node already has been found to fit.
	if name := insufficient(p.requests, node.Status.Allocatable, c.requested[node.Name]); name != "" && !p.assumed.Has(node.Name) {
		return "with too little " + string(name) + " left (free or add some, or recreate the pod with smaller requests)"
	}
	return ""
}

// isReady reports whether the node's Ready condition is True.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// insufficient returns the first resource by name of which less is left than is
// requested, or "". A resource of which nothing is requested is never insufficient,
// even on a node that is overcommitted already.
func insufficient(requests, allocatable, requested corev1.ResourceList) corev1.ResourceName {
	var first corev1.ResourceName
	for name, request := range requests {
		sum := requested[name].DeepCopy()
		sum.Add(request)
		if sum.Cmp(allocatable[name]) > 0 && !request.IsZero() && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// podRequests returns what the pod takes of a node's allocatable resources, itself
// as one of "pods" included: init containers, overhead, pod-level requests and
// a resize under way count as for the kubelet. Nil unless requests count.
func (c *cluster) podRequests(pod *corev1.Pod) corev1.ResourceList {
	if c.options.Fit != FitResources {
		return nil
	}
	requests := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{UseStatusResources: true})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// explain says why no node is feasible for a pod, by how many nodes each reason has: with
// what to do about it.
func (c *cluster) explain(nodes map[string]int) string {
	if len(c.nodes) == 0 {
		return "0/0 nodes are available: the cluster has no nodes (add one)"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(nodes)) {
		parts = append(parts, fmt.Sprintf("%d node(s) %s", nodes[reason], reason))
	}
	return messages.Cut(fmt.Sprintf("0/%d nodes are available (--fit=%s): %s", len(c.nodes), c.options.Fit, strings.Join(parts, "; ")))
}
