// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
)

// TestCandidatesAgainstAllNodes holds NodeCandidates against a search of all nodes, on
// random clusters with random profiles: weights, taints, spreading, affinity, preemption,
// Colocation beside GPUDevice.
// Both place the same pods on the same nodes, as NodeCandidates has chosen them. Of each
// pod:
//
//   - it is placed if it fits on any node, and pods are evicted for it only if it fits on
//     none;
//   - if the cycle was narrowed to nodes that were all looked at, those that the search of
//     all nodes rates best are among them, and the chosen one is rated no less than these:
//     in profiles that do not bound how many are offered (percentageOfNodesToScore: 99).
//
// The scores of other plugins are stretched over the range of those that are scored
// (NormalizeScore). So the last comparison is by the scores of the narrowed cycle. How
// often a rating among all nodes would have differed is logged.
func TestCandidatesAgainstAllNodes(t *testing.T) {
	t.Parallel()
	var counts candidateCounts
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 13))
		nodes, pods := 120+random.IntN(180), 150
		if seed%3 == 0 {
			nodes, pods = 105, 330 // more than there is room for
		}
		m := newCandidateModel(t, random, nodes, seed%4 > 0)
		for i := range pods {
			m.arrive(t, randomPod(random, i))
		}
		counts.add(&m.candidateCounts)
	}
	t.Logf("%+v", counts)
	if counts.narrowed < 300 || counts.single < 100 || counts.several < 100 || counts.evicted < 5 || counts.refused < 20 || counts.whole < 50 {
		t.Errorf("%+v: the clusters show little", counts)
	}
	if counts.belowAmongAll > counts.narrowed/20 {
		t.Errorf("%d of %d narrowed placements are rated less among all nodes than the best", counts.belowAmongAll, counts.narrowed)
	}
}

// candidateCounts say what the histories had in them.
type candidateCounts struct {
	// narrowed cycles were looked at whole, with a single node that fits or several, and
	// whole ones were not narrowed, or to so many that not all were looked at.
	narrowed, single, several, whole int
	// evicted pods found room by eviction, and refused none.
	evicted, refused int
	// belowAmongAll placements are rated less than the best if all nodes are rated together.
	belowAmongAll int
}

func (c *candidateCounts) add(o *candidateCounts) {
	c.narrowed += o.narrowed
	c.single += o.single
	c.several += o.several
	c.whole += o.whole
	c.evicted += o.evicted
	c.refused += o.refused
	c.belowAmongAll += o.belowAmongAll
}

// candidateModel is a cluster twice: narrowed has NodeCandidates, and all looks at all
// nodes.
type candidateModel struct {
	candidateCounts
	narrowed, all *Engine
	// unbounded is whether all nodes that can win are offered, however many.
	unbounded bool
}

func newCandidateModel(t *testing.T, random *rand.Rand, nodes int, unbounded bool) *candidateModel {
	t.Helper()
	weights := map[string]int{}
	for _, name := range []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "ImageLocality"} {
		weights[name] = 1 + random.IntN(5)
	}
	weight := []int{2000, 1000 + random.IntN(3000), 100 + random.IntN(1000), 1 + random.IntN(50)}[random.IntN(4)]
	strategy := []string{"FragmentationGradient", "FragmentationGradient", "BestFit", "MostAllocated", "LeastAllocated"}[random.IntN(5)]
	colocation := []int{0, 20, 300, 2000}[random.IntN(4)]
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	for _, app := range apps {
		objects = append(objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}}})
	}
	for i := range nodes {
		objects = append(objects, randomNode(random, i))
	}
	seed := random.Uint64()
	build := func(withCandidates bool) *Engine {
		percentage := 100
		switch {
		case withCandidates && unbounded:
			percentage = 99
		case withCandidates:
			percentage = 0 // the scheduler's own choice
		}
		config, err := LoadConfiguration("profile.yaml", []byte(candidateProfile(withCandidates, percentage, weight, colocation, strategy, weights)))
		if err != nil {
			t.Fatal(err)
		}
		return newEngine(t, Options{Config: config, Seed: seed, Preemption: true}, makeCluster(t, objects...))
	}
	return &candidateModel{narrowed: build(true), all: build(false), unbounded: unbounded}
}

// candidateProfile is gpu.yaml with other weights, and Colocation where it has one; with or
// without NodeCandidates.
func candidateProfile(withCandidates bool, percentage, weight, colocation int, strategy string, weights map[string]int) string {
	var b strings.Builder
	plugin, postFilter := "", ""
	if colocation > 0 {
		plugin = fmt.Sprintf(", {name: Colocation, weight: %d}", colocation)
	}
	if withCandidates {
		plugin += ", {name: NodeCandidates}"
		postFilter = "    postFilter: {enabled: [{name: NodeCandidates}]}\n"
	}
	fmt.Fprintf(&b, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceNamespace: berth-system, resourceName: berth-scheduler}
profiles:
- schedulerName: berth-scheduler
  percentageOfNodesToScore: %d
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResourceGroups: [berth.dev, example.com]}
  - name: GPUDevice
    args: {scoringStrategy: {type: %s}}
  plugins:
    multiPoint: {enabled: [{name: GPUDevice, weight: %d}%s]}
    bind: {enabled: [{name: GPUDevice}]}
%s    score:
      enabled:
`, percentage, strategy, weight, plugin, postFilter)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		fmt.Fprintf(&b, "      - {name: %s, weight: %d}\n", name, weights[name])
	}
	return b.String()
}

func randomNode(random *rand.Rand, i int) *corev1.Node {
	name := fmt.Sprintf("n%03d", i)
	var node *corev1.Node
	if random.IntN(4) == 0 {
		node = makeNode(name, 8<<random.IntN(3))
	} else {
		node = makeSharedNode(name, 8<<random.IntN(3), 1+random.IntN(4), []string{"A", "A", "B"}[random.IntN(3)])
	}
	node.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("z%d", random.IntN(4))
	node.Labels["disk"] = []string{"ssd", "hdd"}[random.IntN(2)]
	switch random.IntN(6) {
	case 0:
		node.Spec.Taints = []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	case 1:
		node.Spec.Taints = []corev1.Taint{{Key: "hard", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

// apps are the values of the pods' label app, and the Services that select them.
var apps = []string{"a", "b", "c"}

// randomPod is a pod with a share, or whole devices, and some wishes.
func randomPod(random *rand.Rand, i int) *corev1.Pod {
	name := fmt.Sprintf("p%d", i)
	cpu := strconv.Itoa(1 + random.IntN(6))
	milli := strconv.Itoa([]int{100, 250, 300, 500, 500, 700, 1000, 1000, 2000, 4000}[random.IntN(10)])
	pod := makePod(name, "cpu", cpu, names.GPUMilliResource, milli)
	pod.Labels["app"] = apps[random.IntN(len(apps))]
	if random.IntN(3) == 0 {
		i := random.IntN(len(apps))
		pod.Annotations = map[string]string{names.ColocateWithAnnotation: apps[i] + "=3," + apps[(i+1)%len(apps)]}
	}
	priority := []int32{0, 0, 0, 10, 100}[random.IntN(5)]
	pod.Spec.Priority = &priority
	wishes := &st.PodWrapper{Pod: *pod}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	if random.IntN(3) == 0 {
		when := []corev1.UnsatisfiableConstraintAction{corev1.ScheduleAnyway, corev1.DoNotSchedule}[random.IntN(2)]
		wishes = wishes.SpreadConstraint(1+random.IntN(4), corev1.LabelTopologyZone, when, selector, nil, nil, nil, nil)
	}
	if random.IntN(5) == 0 {
		wishes = wishes.Toleration("hard")
	}
	switch random.IntN(8) {
	case 0:
		wishes = wishes.NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions)
	case 1:
		wishes.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight:     1 + random.Int32N(100),
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}},
		}}}}
	case 2:
		wishes = wishes.PodAntiAffinity(corev1.LabelHostname, selector, st.PodAntiAffinityWithPreferredReq)
	case 3:
		wishes = wishes.PodAffinity(corev1.LabelTopologyZone, selector, st.PodAffinityWithPreferredReq)
	case 4:
		wishes = wishes.PodAntiAffinity(corev1.LabelHostname, selector, st.PodAntiAffinityWithRequiredReq)
	}
	return wishes.Obj()
}

// arrive lets a pod arrive in both.
func (m *candidateModel) arrive(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	got := schedule(t, m.narrowed, pod)
	if got.Node == "" || len(got.Victims) > 0 {
		m.checkFitsNowhere(t, pod)
		for _, victim := range got.Victims {
			m.delete(t, m.all, victim)
		}
	}
	if got.Node == "" {
		m.refused++
		m.delete(t, m.narrowed, pod)
		m.delete(t, m.all, pod)
		return
	}
	want, err := m.all.ScheduleOn(t.Context(), pod, got.Node)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Victims) == 0 && assigned(got) != assigned(want) {
		t.Errorf("pod %s has %s, and %s where all nodes are looked at; %s: %s, and %s",
			pod.Name, assigned(got), assigned(want), got.Node, m.assignedOn(m.narrowed, got.Node), m.assignedOn(m.all, got.Node))
	}
	switch {
	case len(got.Victims) > 0:
		m.evicted++
	case got.Evaluated >= 100: // the scheduler looks at no fewer
		m.whole++
	default:
		m.candidateCounts.narrowed++
		if !m.unbounded {
			return
		}
		m.compare(t, pod, totals(got), got, totals(want))
	}
}

// checkFitsNowhere: the pod fits on no node as it is.
func (m *candidateModel) checkFitsNowhere(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	d, err := m.all.Diagnose(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range d.Nodes {
		if len(d.Refusals) == 0 && len(node.Verdicts) == 0 {
			t.Fatalf("pod %s was not placed, or others were evicted for it, and it fits on %s", pod.Name, node.Node.Node().Name)
		}
	}
}

// assignedOn returns what the pods of a node have, by name.
func (m *candidateModel) assignedOn(e *Engine, node string) string {
	var all []string
	for _, obj := range e.informers.byResource["pods"].GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			all = append(all, pod.Name+" "+pod.Annotations[names.GPUAssignedAnnotation])
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (m *candidateModel) delete(t *testing.T, e *Engine, pod *corev1.Pod) {
	t.Helper()
	if err := e.Delete(t.Context(), pod.Namespace, pod.Name); err != nil {
		t.Fatal(err)
	}
}

// compare holds the scores of a narrowed cycle against those of all nodes.
func (m *candidateModel) compare(t *testing.T, pod *corev1.Pod, narrowed map[string]int64, got Result, all map[string]int64) {
	t.Helper()
	if len(all) == 0 {
		return // one node fits, and both have it
	}
	best := slices.Max(slices.Collect(maps.Values(all)))
	if all[got.Node] < best {
		m.belowAmongAll++
	}
	if len(narrowed) == 0 {
		m.single++
		if all[got.Node] != best {
			t.Fatalf("pod %s: %s alone was looked at, and is rated %d; the best of all nodes %d", pod.Name, got.Node, all[got.Node], best)
		}
		return
	}
	m.several++
	for node, total := range all {
		if total != best {
			continue
		}
		among, offered := narrowed[node]
		if !offered {
			t.Fatalf("pod %s: %s is the best of all nodes with %d, and was not among the %d that were looked at; %s has %d", pod.Name, node, total, got.Evaluated, got.Node, all[got.Node])
		}
		if among > narrowed[got.Node] {
			t.Fatalf("pod %s: %s was chosen with %d, and %s has %d", pod.Name, got.Node, narrowed[got.Node], node, among)
		}
	}
}

// TestDiagnoseLooksAtAllNodes: a diagnosis is not narrowed.
func TestDiagnoseLooksAtAllNodes(t *testing.T) {
	var objects []*corev1.Node
	for i := range 150 {
		objects = append(objects, makeSharedNode(fmt.Sprintf("n%03d", i), 8, 1, "A"))
	}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeCluster(t, objects...))
	schedule(t, e, makePod("first", names.GPUMilliResource, "500"))
	d, err := e.Diagnose(t.Context(), makePod("second", names.GPUMilliResource, "600"))
	if err != nil {
		t.Fatal(err)
	}
	rejected := 0
	for _, node := range d.Nodes {
		if len(node.Verdicts) > 0 {
			rejected++
		}
	}
	if len(d.Nodes) != 150 || rejected != 1 || len(d.Refusals) > 0 {
		t.Errorf("%d nodes were looked at, %d rejected, refusals %v; want 150, 1 and none", len(d.Nodes), rejected, d.Refusals)
	}
}

// One operation is a cycle of a share, up to its Binding, and its deletion, on nodes with
// eight devices, half of them in use: without an API server, and with the framework's own
// filters and scores.
func BenchmarkShareCycle(b *testing.B) {
	for _, profile := range []struct {
		name   string
		change func(*schedconfig.KubeSchedulerConfiguration)
	}{
		{"candidates", func(*schedconfig.KubeSchedulerConfiguration) {}},
		{"all", func(c *schedconfig.KubeSchedulerConfiguration) {
			c.Profiles[0].PercentageOfNodesToScore = new(int32)
			*c.Profiles[0].PercentageOfNodesToScore = 100
		}},
	} {
		for _, count := range []int{1000, 5000, 15000} {
			b.Run(fmt.Sprintf("profile=%s/nodes=%d", profile.name, count), func(b *testing.B) {
				config := loadProfile(b, gpuProfile)
				profile.change(config)
				e := newEngine(b, Options{Config: config}, busyCluster(b, count))
				i := 0
				cycle := func() {
					i++
					pod := makePod(fmt.Sprintf("p%d", i), "cpu", "1", names.GPUMilliResource, strconv.Itoa(100*(1+i%8)))
					if result := schedule(b, e, pod); result.Node == "" {
						b.Fatal(result.Message)
					}
					if err := e.Delete(b.Context(), pod.Namespace, pod.Name); err != nil {
						b.Fatal(err)
					}
				}
				for range 32 {
					cycle() // the first of each kind looks at every node
				}
				b.ReportAllocs()
				before := processCPU(b)
				for b.Loop() {
					cycle()
				}
				b.ReportMetric(float64(processCPU(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processCPU returns what all threads of this process have used so far: where others run on
// the machine too, the time that an operation takes says little.
func processCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// busyCluster has nodes with eight devices, four of them in use, two of these in part.
func busyCluster(tb testing.TB, count int) *cluster.Cluster {
	tb.Helper()
	var objects []runtime.Object
	for i := range count {
		node := makeSharedNode(fmt.Sprintf("n%05d", i), 64, 8, "A")
		objects = append(objects, node)
		for d, milli := range []int{1000, 1000, 200 + 100*(i%7), 200 + 100*(i/7%7)} {
			pod := on(makePod(fmt.Sprintf("bound-%d-%d", i, d), "cpu", "1", names.GPUMilliResource, strconv.Itoa(milli)), node.Name)
			pod.Annotations = map[string]string{
				names.GPUDevicesAnnotationPrefix + "main": strconv.Itoa(d), names.GPUAssignedAnnotation: fmt.Sprintf("main=%d:%dm:%dMi", d, milli, 16384*milli/1000),
			}
			objects = append(objects, pod)
		}
	}
	return makeCluster(tb, objects...)
}
