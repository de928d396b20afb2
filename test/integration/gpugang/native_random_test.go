// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	randomPool = "random"
	// randomBatch gangs arrive at once, and randomAlive stay at most.
	randomBatch, randomAlive = 4, 7
)

// newRandomNodes returns nodes of one to eight devices of several sizes.
func newRandomNodes() []corev1.Node {
	rng := rand.New(rand.NewPCG(12, 0))
	var nodes []corev1.Node
	for i := range 10 {
		node := pooled(randomPool, gpuNode(fmt.Sprintf("random-%d", i), 1+rng.IntN(8)))
		node.Labels["nvidia.com/gpu.memory"] = strconv.Itoa([]int{16384, 24576, 40960, 81920}[rng.IntN(4)])
		nodes = append(nodes, node)
	}
	return nodes
}

// testRandomGangs lets gangs of random shape come and go, deletes members in the middle
// of everything and kills the scheduler, and has the oracle check every list of pods that
// it sees.
//
// BERTH_LONG=1 makes it 1,000 gangs.
func testRandomGangs(t *testing.T, c *framework.Cluster) {
	gangs := 6 * randomBatch
	if framework.Long() {
		gangs = 1000
	}
	r := &randomGangs{t: t, c: c, rng: rand.New(rand.NewPCG(12, 1)), alive: map[string]*randomGang{}}
	r.start()
	for batch := 1; r.created < gangs || r.showLittle() && r.created < 5*gangs; batch++ {
		for range randomBatch {
			r.createGang()
		}
		if batch%2 == 0 {
			r.replaceMember()
		}
		if batch%5 == 0 {
			r.restart()
		}
		r.settle()
		r.leave()
	}
	r.countOvertaken()
	t.Logf("%+v", r.randomCounts)
	if r.wrong > 0 {
		t.Errorf("%d violations", r.wrong)
	}
	if r.showLittle() {
		t.Error("this shows little")
	}
}

// randomCounts say what happened.
type randomCounts struct {
	created, members, placed, refused, evicted, replaced, restarts, lists int
	// wrong are violations.
	wrong int
	// overtaken is how often Reserve found no room where Filter had.
	overtaken int
}

// showLittle reports whether something that may happen has not.
func (n *randomCounts) showLittle() bool {
	return n.placed == 0 || n.refused == 0 || n.evicted == 0 || n.replaced == 0 || n.restarts == 0
}

// randomGangs are the gangs that are there.
type randomGangs struct {
	randomCounts

	t         *testing.T
	c         *framework.Cluster
	rng       *rand.Rand
	scheduler *framework.Scheduler
	alive     map[string]*randomGang
	pods      int
}

type randomGang struct {
	minCount      int
	priorityClass string
	pods          []*corev1.Pod
	// bound is how many of them have a node.
	bound int
	// interrupted is whether a member was replaced or evicted, or the scheduler killed
	// before all of the gang had been tried: then another gang may have taken what was left
	// for it.
	interrupted, evicted bool
	// settled is whether all of it was tried once.
	settled bool
}

func (r *randomGangs) start() {
	r.scheduler = startNativeScheduler(r.t, r.c, gangGates, nil)
}

// restart kills the scheduler, wherever it is.
func (r *randomGangs) restart() {
	r.restarts++
	for _, g := range r.alive {
		g.interrupted = g.interrupted || !g.settled
	}
	r.scheduler.Kill()
	r.countOvertaken()
	r.start()
}

func (r *randomGangs) countOvertaken() {
	for line := range strings.Lines(r.scheduler.Output()) {
		if strings.Contains(line, overtaken) && strings.Contains(line, "Plugin failed") {
			r.overtaken++
			r.t.Log(line)
		}
	}
}

// createGang creates a PodGroup and its pods: of one shape, or of several.
func (r *randomGangs) createGang() {
	name := fmt.Sprintf("random-%d", r.created)
	r.created++
	size := 1 + r.rng.IntN(8)
	g := &randomGang{minCount: size}
	if r.rng.IntN(4) == 0 {
		g.minCount = 1 + r.rng.IntN(size)
	}
	if r.rng.IntN(6) == 0 {
		g.priorityClass = urgent
	}
	createGroup(r.t, r.c, name, g.minCount, g.priorityClass)
	limits := r.shape()
	for range size {
		if r.rng.IntN(6) == 0 {
			limits = r.shape()
		}
		r.addMember(name, g, limits)
	}
	r.alive[name] = g
}

func (r *randomGangs) addMember(name string, g *randomGang, limits corev1.ResourceList) {
	pod := member(name, inPool(randomPool, framework.SharePod(fmt.Sprintf("%s-%d", name, r.pods), "0")))
	pod.Spec.PriorityClassName = g.priorityClass
	pod.Spec.Containers[0].Resources.Limits = limits
	r.pods++
	create(r.t, r.c, pod)
	g.pods = append(g.pods, pod)
	r.members++
}

// shape draws what a pod asks for: a share, whole devices, memory, or a share and memory.
func (r *randomGangs) shape() corev1.ResourceList {
	milli := func(n int) corev1.ResourceList {
		return corev1.ResourceList{names.GPUMilliResource: resource.MustParse(strconv.Itoa(n))}
	}
	memory := func() resource.Quantity { return resource.MustParse(fmt.Sprintf("%dGi", 1+r.rng.IntN(16))) }
	switch r.rng.IntN(8) {
	case 0:
		return milli(1000)
	case 1:
		return milli(2000)
	case 2:
		return corev1.ResourceList{names.GPUMemoryResource: memory()}
	case 3:
		limits := milli(50 * (1 + r.rng.IntN(19)))
		limits[names.GPUMemoryResource] = memory()
		return limits
	default:
		return milli(50 * (1 + r.rng.IntN(19)))
	}
}

// replaceMember deletes a member of the newest gang, which is being placed, and creates
// another one as a Job does. It leaves out gangs that may preempt: kube-scheduler 1.36 holds
// back a member that comes while its group does (DefaultPreemption's PreEnqueue), and wakes
// it after five minutes only.
func (r *randomGangs) replaceMember() {
	newest := r.created - 1
	name := func() string { return fmt.Sprintf("random-%d", newest) }
	for r.alive[name()] != nil && r.alive[name()].priorityClass != "" {
		newest--
	}
	g := r.alive[name()]
	if g == nil {
		return
	}
	k := r.rng.IntN(len(g.pods))
	gone := g.pods[k]
	g.pods = slices.Delete(g.pods, k, k+1)
	g.interrupted = true
	r.replaced++
	r.forceDelete(gone)
	r.addMember(name(), g, gone.Spec.Containers[0].Resources.Limits)
}

func (r *randomGangs) forceDelete(pod *corev1.Pod) {
	err := r.c.Client.CoreV1().Pods(pod.Namespace).Delete(r.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
	if err != nil && !apierrors.IsNotFound(err) { // it may have been evicted
		r.t.Fatal(err)
	}
}

// settle waits until every member has a node or was refused, and every gang enough of
// them or none.
func (r *randomGangs) settle() {
	nodes, err := r.c.Client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	seen := sets.New[string]()
	framework.WaitForCondition(r.t, 2*framework.WaitTimeout, "all gangs to be placed or refused", func() (bool, error) {
		pods, err := r.c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		r.lists++
		for _, v := range wrongIn(oracle.CheckDevices(nodes.Items, pods.Items)) {
			seen.Insert(v.String())
		}
		byName := map[string]*corev1.Pod{}
		for i := range pods.Items {
			byName[pods.Items[i].Name] = &pods.Items[i]
		}
		for _, name := range slices.Sorted(maps.Keys(r.alive)) {
			g := r.alive[name]
			if g.bound, err = g.boundIn(byName); err != nil {
				return false, fmt.Errorf("gang %s: %w", name, err)
			}
		}
		return true, nil
	})
	for _, g := range r.alive {
		switch {
		case g.settled:
		case g.bound > 0:
			r.placed++
		default:
			r.refused++
		}
		g.settled = true
	}
	r.wrong += len(seen)
	for _, text := range sets.List(seen) {
		r.t.Log(text)
	}
}

// boundIn returns how many members have a node, and an error while something is still
// to come.
func (g *randomGang) boundIn(pods map[string]*corev1.Pod) (int, error) {
	bound := 0
	for _, pod := range g.pods {
		now := pods[pod.Name]
		switch {
		case now == nil:
			g.interrupted, g.evicted = true, true
		case now.DeletionTimestamp != nil:
			return 0, fmt.Errorf("pod %s is being evicted", pod.Name)
		case now.Spec.NodeName != "":
			bound++
		default:
			if condition := framework.PodScheduledCondition(now); condition == nil || condition.Status != corev1.ConditionFalse {
				return 0, fmt.Errorf("pod %s has neither a node nor a reason", now.Name)
			}
		}
	}
	if bound > 0 && bound < g.minCount && !g.interrupted {
		return bound, fmt.Errorf("%d members are bound, and %d are needed", bound, g.minCount)
	}
	return bound, nil
}

// leave deletes gangs: refused ones now and then, and any until few enough are left.
func (r *randomGangs) leave() {
	for _, name := range slices.Sorted(maps.Keys(r.alive)) {
		g := r.alive[name]
		if g.evicted {
			r.evicted++
		} else if (g.bound > 0 || r.rng.IntN(2) == 0) && (len(r.alive) <= randomAlive || r.rng.IntN(2) == 0) {
			continue
		}
		for _, pod := range g.pods {
			r.forceDelete(pod)
		}
		deleteGroup(r.t, r.c, name)
		delete(r.alive, name)
	}
}
