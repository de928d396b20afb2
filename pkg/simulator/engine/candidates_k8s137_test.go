// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestCandidatesAndPodGroups lets gangs arrive among the pods of
// TestCandidatesAgainstAllNodes. Their cycles are not narrowed: a gang has as many nodes as
// in a search of all nodes, at once, and pods are evicted for it only if it does not fit.
// The pods that come between are as there.
func TestCandidatesAndPodGroups(t *testing.T) {
	enableGangs(t)
	var counts candidateCounts
	var gangs gangCounts
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 37))
		m := newCandidateModel(t, random, 105+random.IntN(100), seed%3 > 0)
		for i := range 120 {
			if i%5 == 0 {
				gangs.add(m.arriveTogether(t, randomGang(random, i)))
			} else {
				m.arrive(t, randomPod(random, i))
			}
		}
		counts.add(&m.candidateCounts)
	}
	t.Logf("%+v, %+v", counts, gangs)
	if counts.narrowed < 150 || gangs.whole < 50 || gangs.inPart < 3 || gangs.preempted < 3 || gangs.refused < 5 {
		t.Errorf("%+v, %+v: the clusters show little", counts, gangs)
	}
}

// gangCounts say what became of gangs: all members or some have nodes, pods were evicted for
// them, or they have none.
type gangCounts struct{ whole, inPart, preempted, refused int }

func (c *gangCounts) add(o gangCounts) {
	c.whole += o.whole
	c.inPart += o.inPart
	c.preempted += o.preempted
	c.refused += o.refused
}

// gang is a PodGroup of equal members, which keep no other member from a node but by what
// they take of it: so many find nodes, whichever those before them have.
type gang struct {
	name     string
	minCount int
	members  []*corev1.Pod
}

func randomGang(random *rand.Rand, i int) gang {
	g := gang{name: fmt.Sprintf("g%d", i)}
	members := []int{2, 3, 5, 8, 40, 150}[random.IntN(6)]
	g.minCount = 1 + random.IntN(members)
	milli := []string{"300", "500", "1000", "1000", "2000", "4000"}[random.IntN(6)]
	cpu, app := strconv.Itoa(1+random.IntN(4)), apps[random.IntN(len(apps))]
	near, wish, priority := random.IntN(3) == 0, random.IntN(6), []int32{0, 10, 100}[random.IntN(3)]
	for k := range members {
		pod := makePod(fmt.Sprintf("%s-%d", g.name, k), "cpu", cpu, names.GPUMilliResource, milli)
		pod.Labels["app"] = app
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.name}
		pod.Spec.Priority = &priority
		if near {
			pod.Annotations = map[string]string{names.ColocateWithAnnotation: app}
		}
		wishes := &st.PodWrapper{Pod: *pod}
		switch wish {
		case 0:
			wishes = wishes.Toleration("hard")
		case 1:
			wishes = wishes.NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions)
		}
		g.members = append(g.members, wishes.Obj())
	}
	return g
}

// arriveTogether lets a gang arrive in both.
func (m *candidateModel) arriveTogether(t *testing.T, g gang) (counts gangCounts) {
	t.Helper()
	group := makePodGroup(g.name, int32(g.minCount)) //nolint:gosec // small
	group.Spec.Priority = g.members[0].Spec.Priority
	for _, e := range []*Engine{m.narrowed, m.all} {
		if err := e.Set(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	without, err := m.all.TryPodGroup(t.Context(), g.members)
	if err != nil {
		t.Fatal(err)
	}
	want := numPlaced(without)
	got := schedulePodGroup(t, m.narrowed, g.members)
	placed, victims := numPlaced(got), got.Members[0].Victims
	switch {
	case placed < want:
		t.Fatalf("%d of the %d members of gang %s (minCount %d) have nodes, %d do in a search of all nodes: %s", placed, len(g.members), g.name, g.minCount, want, got.Message)
	case want == len(g.members) && len(victims) > 0:
		t.Fatalf("%d pods were evicted for gang %s, which fits without", len(victims), g.name)
	case placed > want && len(victims) == 0:
		t.Fatalf("%d members of gang %s have nodes, and %d in a search of all nodes", placed, g.name, want)
	case placed == 0:
		counts.refused++
	case len(victims) > 0:
		counts.preempted++
	case placed < len(g.members):
		counts.inPart++
	default:
		counts.whole++
	}
	if len(victims) == 0 { // else the members try their nominated nodes first
		m.checkNotNarrowed(t, got)
	}
	for _, victim := range victims {
		m.delete(t, m.all, victim)
	}
	for i, member := range got.Members {
		m.delete(t, m.all, without.Members[i].Pod)
		if member.Node == "" {
			m.delete(t, m.narrowed, member.Pod)
		} else if err := m.all.Set(t.Context(), member.Pod); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

func numPlaced(r PodGroupResult) int {
	placed := 0
	for _, member := range r.Members {
		if member.Node != "" {
			placed++
		}
	}
	return placed
}

// checkNotNarrowed: for each member as many nodes were looked at as there are, or as the
// profile wants to score.
func (m *candidateModel) checkNotNarrowed(t *testing.T, r PodGroupResult) {
	t.Helper()
	fw, err := m.narrowed.frameworkFor(r.Members[0].Pod)
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.narrowed.snapshot.ListNodesInPlacement()
	if err != nil {
		t.Fatal(err)
	}
	nodes := len(all)
	wanted, err := m.narrowed.numFeasibleNodesToFind(t.Context(), fw, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range r.Members {
		if (member.Node != "" || member.Proposed != "") && member.Evaluated < nodes && member.Feasible < wanted {
			t.Fatalf("pod %s, a member of a gang: %d nodes of %d were looked at, %d of them fit, want %d", member.Pod.Name, member.Evaluated, nodes, member.Feasible, wanted)
		}
	}
}

// TestCandidatesAndExtenders has some pods of TestCandidatesAgainstAllNodes ask for what an
// HTTP extender manages, which filters or scores the nodes or both, fails for some and may
// then be ignored or not, and knows the nodes or is sent them. What is called is
// kube-scheduler's own code. Their cycles are not narrowed: all nodes are looked at, and the
// best of those that the extender lets pass is taken. The other pods are as there.
func TestCandidatesAndExtenders(t *testing.T) {
	t.Parallel()
	var counts candidateCounts
	var extended extendedCounts
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 41))
		x := newModelExtender(t, random, seed)
		m := &extendedModel{candidateModel: newCandidateModel(t, random, 105+random.IntN(100), true, x), extender: x}
		m.narrowed.cycle.scheduler.Extenders = []fwk.Extender{x}
		for i := range 80 {
			pod := randomPod(random, i)
			if random.IntN(3) > 0 {
				m.arrive(t, pod)
				continue
			}
			pod.Spec.Containers[0].Resources.Requests[licence] = resource.MustParse("1")
			if random.IntN(8) == 0 {
				pod.Labels[failing] = ""
			}
			m.arriveExtended(t, pod)
		}
		counts.add(&m.candidateCounts)
		extended.add(&m.extendedCounts)
	}
	t.Logf("%+v, %+v", counts, extended)
	if counts.narrowed < 150 || extended.placed < 100 || extended.ignored < 10 || extended.failed < 5 || extended.refused < 3 {
		t.Errorf("%+v, %+v: the clusters show little", counts, extended)
	}
}

// extendedCounts say what became of the pods that the extender is interested in: a node, one
// although the extender failed, none because it failed, or none because it refused all.
type extendedCounts struct{ placed, ignored, failed, refused int }

func (c *extendedCounts) add(o *extendedCounts) {
	c.placed += o.placed
	c.ignored += o.ignored
	c.failed += o.failed
	c.refused += o.refused
}

// extendedModel is a candidateModel with an extender.
type extendedModel struct {
	*candidateModel
	extendedCounts
	extender *modelExtender
}

const (
	// licence is the resource that the extender manages.
	licence corev1.ResourceName = "example.com/licence"
	// failing is the label of the pods for which the extender fails.
	failing = "failing"
)

// modelExtender is an HTTP extender and the client of it that kube-scheduler has.
type modelExtender struct {
	fwk.Extender
	config schedconfig.Extender
}

func newModelExtender(t *testing.T, random *rand.Rand, variant uint64) *modelExtender {
	t.Helper()
	mux := http.NewServeMux()
	serve := func(verb string, answer func(*extenderv1.ExtenderArgs) any) {
		mux.HandleFunc("POST /"+verb, func(w http.ResponseWriter, r *http.Request) {
			args := &extenderv1.ExtenderArgs{}
			if err := json.NewDecoder(r.Body).Decode(args); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if _, ok := args.Pod.Labels[failing]; ok {
				http.Error(w, "no licences are known", http.StatusInternalServerError)
				return
			}
			if err := json.NewEncoder(w).Encode(answer(args)); err != nil {
				t.Error(err)
			}
		})
	}
	serve("filter", filterForModel)
	serve("prioritize", func(args *extenderv1.ExtenderArgs) any {
		scores := extenderv1.HostPriorityList{}
		for _, node := range nodesOf(args) {
			scores = append(scores, extenderv1.HostPriority{Host: node, Score: licenceScore(args.Pod, node)})
		}
		return scores
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	x := &modelExtender{config: schedconfig.Extender{
		URLPrefix: server.URL, NodeCacheCapable: variant%2 == 0, Ignorable: variant/2%2 == 0,
		ManagedResources: []schedconfig.ExtenderManagedResource{{Name: string(licence), IgnoredByScheduler: true}},
	}}
	if variant/4%3 < 2 {
		x.config.FilterVerb = "filter"
	}
	if variant/4%3 > 0 {
		x.config.PrioritizeVerb, x.config.Weight = "prioritize", []int64{1, 50}[random.IntN(2)]
	}
	var err error
	if x.Extender, err = scheduler.NewHTTPExtender(&x.config); err != nil {
		t.Fatal(err)
	}
	return x
}

// nodesOf returns the names of the nodes that the extender is asked about.
func nodesOf(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	var nodes []string
	for i := range args.Nodes.Items {
		nodes = append(nodes, args.Nodes.Items[i].Name)
	}
	return nodes
}

// filterForModel is the extender's filter. Few nodes have licences.
func filterForModel(args *extenderv1.ExtenderArgs) any {
	result := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}}
	refused := func(node string) bool {
		if hasLicences(args.Pod, node) {
			return false
		}
		result.FailedNodes[node] = "no licence"
		return true
	}
	if args.NodeNames != nil {
		left := slices.DeleteFunc(*args.NodeNames, refused)
		result.NodeNames = &left
		return result
	}
	result.Nodes = args.Nodes
	result.Nodes.Items = slices.DeleteFunc(args.Nodes.Items, func(node corev1.Node) bool { return refused(node.Name) })
	return result
}

func hasLicences(pod *corev1.Pod, node string) bool { return hashOf(pod, node)%5 == 0 }

func licenceScore(pod *corev1.Pod, node string) int64 {
	return int64(hashOf(pod, node)/5) % (extenderv1.MaxExtenderPriority + 1)
}

func hashOf(pod *corev1.Pod, node string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.Labels["app"] + node))
	return h.Sum32() >> 8
}

// arriveExtended lets a pod arrive in both that the extender is interested in.
func (m *extendedModel) arriveExtended(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	want, err := m.rate(t, pod)
	e := m.narrowed
	fw, created := m.begin(t, e, pod)
	queued, queueErr := newQueuedPod(created, 0)
	if queueErr != nil {
		t.Fatal(queueErr)
	}
	state := framework.NewCycleState()
	got, gotErr := e.cycle.upstreamSearch(t.Context(), fw, state, queued)
	_, fails := pod.Labels[failing]
	fit, rejected := errors.AsType[*framework.FitError](gotErr)
	switch nodes := e.snapshot.NumNodesInPlacement(); {
	case err != nil:
		if gotErr == nil || rejected {
			t.Fatalf("pod %s: on %q (%v), where the extender failed: %v", pod.Name, got.SuggestedHost, gotErr, err)
		}
		m.failed++
	case gotErr != nil && !rejected:
		t.Fatalf("pod %s: %v", pod.Name, gotErr)
	case rejected:
		if looked := fit.Diagnosis.NodeToStatus.Len(); len(want) > 0 || looked != nodes && fit.Diagnosis.PreFilterMsg == "" {
			t.Fatalf("pod %s was not placed, %d of %d nodes were looked at, and it fits on %d: %v", pod.Name, looked, nodes, len(want), gotErr)
		}
		m.refused++
	case got.EvaluatedNodes != nodes:
		t.Fatalf("pod %s: %d nodes of %d were looked at", pod.Name, got.EvaluatedNodes, nodes)
	default:
		best := slices.Max(slices.Collect(maps.Values(want)))
		score, ok := want[got.SuggestedHost]
		if !ok || score != best {
			t.Fatalf("pod %s is on %s with %d, the best of %d nodes has %d (extender %+v)", pod.Name, got.SuggestedHost, score, len(want), best, m.extender.config)
		}
		if fails {
			m.ignored++
		} else {
			m.placed++
		}
		// kube-scheduler draws among equal ones, and not by a seed.
		node := slices.MinFunc(slices.Sorted(maps.Keys(want)), func(a, b string) int { return int(want[b] - want[a]) })
		if _, err := e.ScheduleOn(t.Context(), created, node); err != nil {
			t.Fatal(err)
		}
		if _, err := m.all.ScheduleOn(t.Context(), pod, node); err != nil {
			t.Fatal(err)
		}
		return
	}
	m.delete(t, m.narrowed, pod)
	m.delete(t, m.all, pod)
}

// begin has the pod arrive, and the snapshot up to date.
func (m *extendedModel) begin(t *testing.T, e *Engine, pod *corev1.Pod) (framework.Framework, *corev1.Pod) {
	t.Helper()
	fw, err := e.frameworkFor(pod)
	if err != nil {
		t.Fatal(err)
	}
	if pod, err = e.create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := e.cache.UpdateSnapshot(klog.FromContext(t.Context()), e.snapshot); err != nil {
		t.Fatal(err)
	}
	return fw, pod
}

// rate looks at all nodes, and returns the scores of those that fit and pass the extender, its
// own among them; an error if the extender failed and is not to be ignored.
func (m *extendedModel) rate(t *testing.T, pod *corev1.Pod) (map[string]int64, error) {
	t.Helper()
	e, config := m.all, &m.extender.config
	fw, pod := m.begin(t, e, pod)
	state := framework.NewCycleState()
	found, err := e.findNodesThatFitPod(t.Context(), fw, state, pod)
	if err != nil {
		t.Fatal(err)
	}
	feasible := found.feasible
	_, fails := pod.Labels[failing]
	switch {
	case config.FilterVerb == "" || len(feasible) == 0:
	case fails && !config.Ignorable:
		return nil, errors.New("it does")
	case !fails:
		feasible = slices.DeleteFunc(feasible, func(node fwk.NodeInfo) bool { return !hasLicences(pod, node.Node().Name) })
		if !config.NodeCacheCapable {
			feasible = withoutPods(feasible) // kubernetes/kubernetes#141781
		}
	}
	totals := map[string]int64{}
	if len(feasible) < 2 {
		for _, node := range feasible {
			totals[node.Node().Name] = 0
		}
		return totals, nil
	}
	_, scores, err := e.selectHost(t.Context(), fw, state, pod, feasible, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range scores {
		totals[node.Name] = node.TotalScore
		if config.PrioritizeVerb != "" && !fails {
			totals[node.Name] += licenceScore(pod, node.Name) * config.Weight * fwk.MaxScore / extenderv1.MaxExtenderPriority
		}
	}
	return totals, nil
}

// withoutPods are the nodes as kube-scheduler has them scored that an extender has sent back.
func withoutPods(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	var bare []fwk.NodeInfo
	for _, node := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node.Node())
		bare = append(bare, info)
	}
	return bare
}
