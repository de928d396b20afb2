// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// That real plugins measure, and what a scheduler writes, is shown with a real one, in
// test/integration/scheduler. Here a label says how much a node has.

const stock = "stock"

// stockPlugin wants as much as its number says.
type stockPlugin int

func (p stockPlugin) Name() string                           { return stock }
func (p stockPlugin) NearMiss(*corev1.Pod) shortfall.Measure { return p }

func (p stockPlugin) has(node fwk.NodeInfo) (n int) {
	_, _ = fmt.Sscan(node.Node().Labels[stock], &n)
	return n
}

func (p stockPlugin) Distance(node fwk.NodeInfo) (rank int, gap float64) {
	switch n := p.has(node); {
	case node.Node().Labels["tenant"] != "":
		return shortfall.Hidden, 0
	case n >= int(p):
		return 0, 0
	default:
		return shortfall.Busy, float64(int(p) - n)
	}
}

func (p stockPlugin) Describe(node fwk.NodeInfo) string {
	if n := p.has(node); n < int(p) {
		return fmt.Sprintf("shelf 1 has %d of the %d asked", n, int(p))
	}
	return ""
}

// withSnapshot is a framework of which the snapshot is used, too.
type withSnapshot struct {
	profile
	snapshot fwk.SharedLister
}

func (f withSnapshot) SnapshotSharedLister() fwk.SharedLister { return f.snapshot }

func stocked(name string, has int, labels ...string) *corev1.Node {
	node := st.MakeNode().Name(name).Label(stock, strconv.Itoa(has)).Capacity(map[corev1.ResourceName]string{"cpu": "4", "pods": "10"})
	for _, label := range labels {
		node.Label(label, "x")
	}
	return node.Obj()
}

// attempt lets the pod fail on the nodes, each with its status.
func attempt(t *testing.T, e *Explainer, pod *corev1.Pod, nodes []*corev1.Node, statuses diagnosis, postFilter string, pods ...*corev1.Pod) string {
	t.Helper()
	fw := withSnapshot{profile{name: "p"}, internalcache.NewSnapshot(pods, nodes)}
	explained, _ := e.explain(fw, pod, statuses.fitError(pod, "", postFilter))
	return explained.Error()
}

func measuring(wanted int) *Explainer {
	plugins := &schedconfig.Plugins{Permit: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: gangPlugin}}}}
	return New(informers.NewSharedInformerFactory(fake.NewClientset(), 0), Options{
		Profiles:  map[string]*schedconfig.Plugins{"p": plugins},
		Measuring: map[string][]shortfall.Plugin{"p": {stockPlugin(wanted)}},
	})
}

func tooLittle() *fwk.Status { return resolvable(stock, "node(s) didn't have enough") }

func TestNearest(t *testing.T) {
	pod := st.MakePod().Name("p").Req(map[corev1.ResourceName]string{"cpu": "3"}).Obj()
	busy := st.MakePod().Name("busy").Node("b").Req(map[corev1.ResourceName]string{"cpu": "2"}).Obj()
	noCPU := resolvable("NodeResourcesFit", "Insufficient cpu")
	tests := []struct {
		name       string
		nodes      []*corev1.Node
		statuses   diagnosis
		postFilter string
		want       string
	}{
		{
			name: "the one that lacks least", nodes: []*corev1.Node{stocked("a", 3), stocked("b", 8), stocked("c", 5)},
			statuses: diagnosis{"a": tooLittle(), "b": tooLittle(), "c": tooLittle()},
			want:     "nearest: node b, shelf 1 has 8 of the 10 asked.",
		},
		{
			name: "of equal ones the first", nodes: []*corev1.Node{stocked("d", 8), stocked("b", 8), stocked("c", 8)},
			statuses: diagnosis{"d": tooLittle(), "b": tooLittle(), "c": tooLittle()},
			want:     "nearest: node b, shelf 1 has 8 of the 10 asked.",
		},
		{
			name: "what a plugin says of a node that another has rejected counts", nodes: []*corev1.Node{stocked("a", 7), stocked("b", 0)},
			statuses: diagnosis{"a": tooLittle(), "b": noCPU},
			want:     "nearest: node a, shelf 1 has 7 of the 10 asked.",
		},
		{
			name: "a resource of a node that has the rest", nodes: []*corev1.Node{stocked("a", 1), stocked("b", 10)},
			statuses: diagnosis{"a": tooLittle(), "b": noCPU},
			want:     "nearest: node b, the pod asks for 3 of cpu, and 2 of 4 are free.",
		},
		{
			name: "what others hold is nearer than another kind of node", nodes: []*corev1.Node{stocked("a", 1), stocked("b", 10)},
			statuses: diagnosis{"a": tooLittle(), "b": unresolvable("NodeAffinity", "node(s) didn't match")},
			want:     "nearest: node a, shelf 1 has 1 of the 10 asked.",
		},
		{
			name: "a reason of stock's", nodes: []*corev1.Node{stocked("a", 10)},
			statuses: diagnosis{"a": unresolvable("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")},
			want:     "nearest: node a, which didn't match Pod's node affinity/selector.",
		},
		{
			name: "a node that the owner must not hear of", nodes: []*corev1.Node{stocked("a", 9, "tenant"), stocked("b", 1)},
			statuses: diagnosis{"a": tooLittle(), "b": tooLittle()},
			want:     "nearest: node b, shelf 1 has 1 of the 10 asked.",
		},
		{
			name: "only such nodes", nodes: []*corev1.Node{stocked("a", 9, "tenant")}, statuses: diagnosis{"a": tooLittle()},
		},
		{
			name: "before what preemption says", nodes: []*corev1.Node{stocked("a", 9), stocked("b", 1)}, postFilter: noVictims,
			statuses: diagnosis{"a": tooLittle(), "b": tooLittle()},
			want:     "nearest: node a, shelf 1 has 9 of the 10 asked. preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
		},
		{
			name: "where only nominated pods are in the way", nodes: []*corev1.Node{stocked("a", 10)}, statuses: diagnosis{"a": tooLittle()},
			want: "nearest: node a, what is free there is reserved for a pod of higher priority.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := attempt(t, measuring(10), pod, tt.nodes, tt.statuses, tt.postFilter, busy)
			_, nearest, _ := strings.Cut(got, "nearest: ")
			if nearest != "" {
				nearest = "nearest: " + nearest
			}
			if diff := cmp.Diff(tt.want, nearest); diff != "" {
				t.Errorf("in %q (-want,+got):\n%s", got, diff)
			}
		})
	}
}

// TestNearestStays lets one pod be tried again and again: its text changes with the rest
// of the message, when it is not true any more, and with numbers only within the limit.
func TestNearestStays(t *testing.T) {
	e := measuring(10)
	pod := st.MakePod().Name("p").Obj()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	all := func(names ...string) diagnosis {
		d := diagnosis{}
		for _, name := range names {
			d[name] = tooLittle()
		}
		return d
	}
	try := func(nodes []*corev1.Node, statuses diagnosis) string {
		t.Helper()
		pod.Status.Conditions[0].Message = attempt(t, e, pod, nodes, statuses, noVictims)
		_, text, _ := strings.Cut(pod.Status.Conditions[0].Message, nearestPrefix)
		text, _, _ = strings.Cut(text, ". preemption: ")
		return text
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("at first", try([]*corev1.Node{stocked("a", 8), stocked("b", 2)}, all("a", "b")), "a, shelf 1 has 8 of the 10 asked")
	check("another is nearer", try([]*corev1.Node{stocked("a", 8), stocked("b", 9)}, all("a", "b")), "a, shelf 1 has 8 of the 10 asked")
	check("the number changed", try([]*corev1.Node{stocked("a", 7), stocked("b", 2)}, all("a", "b")), "a, shelf 1 has 7 of the 10 asked")
	for e.renewals.TryAccept() { // as with thousands of pods
	}
	check("the number changed, for many pods", try([]*corev1.Node{stocked("a", 1), stocked("b", 9)}, all("a", "b")), "a, shelf 1 has 7 of the 10 asked")
	check("another number of nodes", try([]*corev1.Node{stocked("a", 1), stocked("b", 9), stocked("c", 0)}, all("a", "b", "c")), "b, shelf 1 has 9 of the 10 asked")
	check("the node is gone", try([]*corev1.Node{stocked("a", 1), stocked("c", 2), stocked("d", 0)}, all("a", "c", "d")), "c, shelf 1 has 2 of the 10 asked")
	check("the node is another tenant's now", try([]*corev1.Node{stocked("a", 1), stocked("c", 2, "tenant"), stocked("d", 0)}, all("a", "c", "d")), "a, shelf 1 has 1 of the 10 asked")
	other := diagnosis{"a": unresolvable("NodeAffinity", "node(s) didn't match"), "c": tooLittle(), "d": tooLittle()}
	check("the node has another cause", try([]*corev1.Node{stocked("a", 10), stocked("c", 3), stocked("d", 1)}, other), "c, shelf 1 has 3 of the 10 asked")
}

func TestNearestIsBounded(t *testing.T) {
	name := strings.Repeat("n", 253)
	got := attempt(t, measuring(10), st.MakePod().Name("p").Obj(), []*corev1.Node{stocked(name, 10)},
		diagnosis{name: resolvable("Wordy", "node(s) "+strings.Repeat("words ", 500))}, "")
	_, text, _ := strings.Cut(got, "nearest: ")
	if len(text) == 0 || len("nearest: "+text) > maxNearest || !strings.HasSuffix(text, "...") && !strings.HasSuffix(text, ".") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

// TestNoNearestAfterFilter: in a binding cycle the snapshot is another cycle's, and it is
// not read: this framework has none.
func TestNoNearestAfterFilter(t *testing.T) {
	pod := st.MakePod().Name("p").Obj()
	fit := diagnosis{"a": resolvable(gangPlugin, "given up")}.fitError(pod, "", "")
	var fw framework.Framework = profile{name: "p"}
	explained, _ := measuring(10).explain(fw, pod, fit)
	if text := explained.Error(); strings.Contains(text, "nearest") {
		t.Errorf("got %q", text)
	}
}
