// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package engine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	clusters := 12
	if testing.Short() { // with the race detector, 15 s each
		clusters = 4
	}
	for seed := range uint64(clusters) { //nolint:gosec // small
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
	if !testing.Short() && (counts.narrowed < 150 || gangs.whole < 50 || gangs.inPart < 3 || gangs.preempted < 3 || gangs.refused < 5) {
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
