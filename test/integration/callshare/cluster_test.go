// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package callshare shows how many of an application's calls stay within a node
// and a zone, depending on who placed its pods: stock kube-scheduler, the same with
// the affinities that a careful user writes, and Berth with the
// shipped profile of Colocation. All place the same pods in the same order on the
// same nodes, one after the other.
package callshare

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	// nodeMilliCPU is what a node has, in thousandths of a CPU.
	nodeMilliCPU = 1500
	// takenPercent is how much of it is taken by pods of others, of all nodes.
	takenPercent = 70
	// poolLabel keeps the pods of a test on its own nodes.
	poolLabel = "pool"
	// othersNamespace has the pods that were there before.
	othersNamespace = "others"
)

// pool is a group of nodes that one test has for itself.
type pool struct {
	name string
	// free is what the others leave free on each node, by zone.
	free map[string][]int64
}

// large is 30 nodes in 3 zones with 70 % of the CPU taken, unevenly: some nodes
// have room for half of an application, others for one small pod or two.
var large = pool{name: "large", free: map[string][]int64{
	"a": {200, 1000, 350, 700, 150, 500, 800, 250, 400, 300},
	"b": {550, 100, 900, 300, 450, 250, 750, 200, 650, 350},
	"c": {150, 500, 250, 700, 450, 850, 200, 600, 300, 350},
}}

// small is few enough nodes that the best placement of all can be computed: one in
// each zone has room for one pod of each of six Services.
var small = pool{name: "small", free: map[string][]int64{
	"a": {500, 800},
	"b": {600, 900},
}}

// tight is the same with barely room for them, and in zone b not on one node.
var tight = pool{name: "tight", free: map[string][]int64{
	"a": {700, 500},
	"b": {600, 600},
}}

// nodes returns the pool's nodes.
func (p pool) nodes() []corev1.Node {
	var nodes []corev1.Node
	for zone, free := range p.free {
		for i := range free {
			node := localcluster.FakeNodes(1)[0]
			node.Name = p.node(zone, i)
			node.Labels[corev1.LabelHostname] = node.Name
			node.Labels[corev1.LabelTopologyZone] = zone
			node.Labels[poolLabel] = p.name
			node.Status.Capacity[corev1.ResourceCPU] = milli(nodeMilliCPU)
			node.Status.Allocatable = node.Status.Capacity.DeepCopy()
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (p pool) node(zone string, i int) string { return fmt.Sprintf("%s-%s%d", p.name, zone, i) }

// fill creates the pods of others, each on its node from the start.
func (p pool) fill(t *testing.T, c *framework.Cluster) {
	t.Helper()
	for zone, free := range p.free {
		for i, left := range free {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: othersNamespace, Name: p.node(zone, i)},
				Spec:       corev1.PodSpec{NodeName: p.node(zone, i), Containers: []corev1.Container{container(nodeMilliCPU - left)}},
			}
			c.CreatePod(t, pod)
		}
	}
}

// total is what is free in each zone, and on all nodes.
func (p pool) total() (byZone map[string]int64, all int64) {
	byZone = map[string]int64{}
	for zone, free := range p.free {
		for _, left := range free {
			byZone[zone] += left
			all += left
		}
	}
	return byZone, all
}

// start starts a control plane with all pools.
func start(t *testing.T) *framework.Cluster {
	t.Helper()
	c := framework.Start(t, framework.Options{Nodes: slices.Concat(large.nodes(), small.nodes(), tight.nodes())})
	c.ApplyManifests(t, "manifests/base", "manifests/random-scheduler")
	c.CreateNamespace(t, othersNamespace, nil)
	for _, p := range []pool{large, small, tight} {
		p.fill(t, c)
	}
	return c
}

func container(milliCPU int64) corev1.Container {
	return corev1.Container{
		Name: "main", Image: "registry.example.com/app",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(milliCPU)}},
	}
}

func milli(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }
