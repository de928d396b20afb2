// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package gpugang

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	simulatedPool = "simulated"
	// simulatedAlive is how many gangs stay at most.
	simulatedAlive = 5
)

// newSimulatedNodes returns nodes of one to four devices of several sizes.
func newSimulatedNodes() []corev1.Node {
	rng := rand.New(rand.NewPCG(14, 0))
	var nodes []corev1.Node
	for i := range 3 {
		node := pooled(simulatedPool, gpuNode(fmt.Sprintf("simulated-%d", i), 1+rng.IntN(4)))
		node.Labels["nvidia.com/gpu.memory"] = strconv.Itoa([]int{16384, 24576, 40960, 81920}[rng.IntN(4)])
		nodes = append(nodes, node)
	}
	return nodes
}

// testSimulatedGangs lets gangs of random shapes come to a cluster that is fuller or
// emptier, first in the simulator, from what the API server has, and then for real: as many
// members must find a node there as here. The members of a gang are alike: of those that are
// not, how many fit depends on which of two equal nodes the first one gets.
//
// BERTH_LONG=1 makes it 400 gangs.
func testSimulatedGangs(t *testing.T, c *framework.Cluster) {
	gangs := 16
	if framework.Long() {
		gangs = 400
	}
	for gate, on := range engine.GangGates() {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, featuregate.Feature(gate), on)
	}
	startNativeScheduler(t, c, gangGates, nil)
	r := &randomGangs{t: t, c: c, rng: rand.New(rand.NewPCG(14, 1)), alive: map[string]*randomGang{}}
	counts := map[string]int{}
	var alive []*simulatedGang
	for i := range gangs {
		g := newSimulatedGang(t, c, r, fmt.Sprintf("simulated-%d", i))
		g.simulate(t, c)
		g.expect(t, c)
		counts["members"] += g.size
		switch {
		case g.victims > 0:
			counts["placed by preemption"]++
		case g.placed == g.size:
			counts["placed whole"]++
		case g.placed > 0:
			counts["placed in part, minCount at least"]++
		default:
			counts["refused"]++
		}
		if g.placed == 0 {
			g.remove(t, c)
			continue
		}
		if alive = append(alive, g); len(alive) > simulatedAlive {
			k := r.rng.IntN(len(alive))
			alive[k].remove(t, c)
			alive = append(alive[:k], alive[k+1:]...)
		}
	}
	t.Logf("%d gangs: %v", gangs, counts)
	if counts["placed whole"] == 0 || counts["refused"] == 0 || framework.Long() && len(counts) < 5 {
		t.Error("this shows little")
	}
}

// simulatedGang is a PodGroup with its pods.
type simulatedGang struct {
	name           string
	size, minCount int
	before         *cluster.Cluster
	pods           []*corev1.Pod
	// placed is how many of them found a node in the simulator, and victims how many pods had
	// to go for them.
	placed, victims int
}

// newSimulatedGang takes down what is there, and creates a gang.
func newSimulatedGang(t *testing.T, c *framework.Cluster, r *randomGangs, name string) *simulatedGang {
	t.Helper()
	g := &simulatedGang{name: name, size: 1 + r.rng.IntN(8)}
	g.minCount = g.size
	if r.rng.IntN(4) == 0 {
		g.minCount = 1 + r.rng.IntN(g.size)
	}
	priorityClass := ""
	if r.rng.IntN(5) == 0 {
		priorityClass = urgent
	}
	var err error
	if g.before, _, err = cluster.List(t.Context(), c.Client); err != nil {
		t.Fatal(err)
	}
	createGroup(t, c, name, g.minCount, priorityClass)
	limits := r.shape()
	for i := range g.size {
		pod := member(name, inPool(simulatedPool, framework.SharePod(fmt.Sprintf("%s-%d", name, i), "0")))
		pod.Spec.PriorityClassName, pod.Spec.Containers[0].Resources.Limits = priorityClass, limits
		created, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		g.pods = append(g.pods, created)
	}
	return g
}

// simulate lets the gang come in the simulator.
func (g *simulatedGang) simulate(t *testing.T, c *framework.Cluster) {
	t.Helper()
	group, err := c.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(t.Context(), g.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.before.Add(group); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(framework.Root(), gpuProfile))
	if err != nil {
		t.Fatal(err)
	}
	config, err := engine.LoadConfiguration(gpuProfile, content)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Options{Config: config, Preemption: true}, g.before)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	result, err := e.SchedulePodGroup(t.Context(), g.pods)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range result.Members {
		if m.Node != "" {
			g.placed++
		}
	}
	g.victims = len(result.Members[0].Victims)
	if g.placed > 0 && g.placed < g.minCount {
		t.Errorf("the simulator places %d members of gang %s, of which %d are needed", g.placed, g.name, g.minCount)
	}
	var nodes []corev1.Node
	for _, node := range g.before.Nodes() {
		nodes = append(nodes, *node)
	}
	var pods []corev1.Pod
	for _, before := range g.before.Pods() {
		if pod := e.Pod(before.Namespace, before.Name); pod != nil {
			pods = append(pods, *pod)
		}
	}
	for _, m := range result.Members {
		pods = append(pods, *m.Pod)
	}
	if wrong := wrongIn(oracle.CheckDevices(nodes, pods)); len(wrong) > 0 {
		t.Errorf("after gang %s came in the simulator: %v", g.name, wrong)
	}
}

// expect waits until as many members have a node for real, and the others were refused.
func (g *simulatedGang) expect(t *testing.T, c *framework.Cluster) {
	t.Helper()
	what := fmt.Sprintf("%d of the %d members of gang %s (minCount %d, %v) to be placed, as in the simulator, %d pods to be evicted for them, and the other members to be refused",
		g.placed, g.size, g.name, g.minCount, g.pods[0].Spec.Containers[0].Resources.Limits, g.victims)
	framework.WaitForCondition(t, framework.WaitTimeout, what, func() (bool, error) {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		bound, members := 0, map[string]bool{}
		for _, pod := range g.pods {
			members[pod.Name] = true
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			condition := framework.PodScheduledCondition(pod)
			switch {
			case pod.DeletionTimestamp != nil:
				return false, fmt.Errorf("pod %s is being deleted", pod.Name)
			case !members[pod.Name]:
			case pod.Spec.NodeName != "":
				bound++
			case condition == nil || condition.Status != corev1.ConditionFalse:
				return false, fmt.Errorf("pod %s has neither a node nor a reason", pod.Name)
			}
		}
		if bound != g.placed {
			return false, errors.New(strconv.Itoa(bound) + " are placed")
		}
		return true, nil
	})
	requireDevicesRight(t, c)
}

// remove deletes the gang and waits until it is gone.
func (g *simulatedGang) remove(t *testing.T, c *framework.Cluster) {
	t.Helper()
	remove(t, c, g.pods...)
	for _, pod := range g.pods {
		c.WaitForPodGone(t, pod.Namespace, pod.Name)
	}
	deleteGroup(t, c, g.name)
}
