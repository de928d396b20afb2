// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// byNumber ranks node-0 100, node-1 99 and so on, and the last nodes 0.
func byNumber(i int) string { return strconv.Itoa(max(0, 100-i)) }

// fromHundredFifty ranks node-0 150, node-1 149 and so on.
func fromHundredFifty(i int) string { return strconv.Itoa(max(0, 150-i)) }

func TestPreFilter(t *testing.T) {
	tests := []struct {
		name    string
		options options
		pod     *corev1.Pod
		// want are the nodes that are offered, nil for all; wantCount is their number, where
		// want is nil.
		want      []string
		wantCount int
	}{
		{name: "a weight that decides", options: options{nodes: rankedNodes(200, byNumber), weight: 2000}, want: []string{"node-0"}},
		{name: "the best ones are full", options: options{nodes: rankedNodes(200, byNumber), weight: 2000, pods: []*corev1.Pod{full("node-0"), full("node-1")}}, want: []string{"node-2"}},
		{
			name: "no node of the best twenty levels fits", want: []string{"node-20"},
			options: options{nodes: rankedNodes(200, byNumber), weight: 2000, pods: func() (pods []*corev1.Pod) {
				for i := range 20 {
					pods = append(pods, full("node-"+strconv.Itoa(i)))
				}
				return pods
			}()},
		},
		{name: "a weight that others can make up for", options: options{nodes: rankedNodes(200, byNumber), weight: 600}, want: []string{"node-0", "node-1", "node-2"}},
		{name: "a weight that decides nothing", options: options{nodes: rankedNodes(200, byNumber), weight: 1}},
		{name: "few nodes pass, and the weight decides nothing", options: options{weight: 1, nodes: rankedNodes(200, func(i int) string {
			if i == 7 || i == 99 {
				return "1"
			}
			return ""
		})}, want: []string{"node-7", "node-99"}},
		{name: "equal ones are all offered", options: options{weight: 2000, nodes: rankedNodes(200, func(i int) string { return strconv.Itoa(i % 2) })}, wantCount: 100},
		{name: "no more than the least sample has", options: options{weight: 2000, nodes: rankedNodes(600, func(i int) string { return strconv.Itoa(min(i, 1)) })}, wantCount: 100},
		{name: "no more than a sample of the profile has", options: options{weight: 2000, percentage: ptr.To[int32](40), nodes: rankedNodes(600, func(i int) string { return strconv.Itoa(min(i, 1)) })}, wantCount: 240},
		{name: "all are equal", options: options{weight: 2000, nodes: rankedNodes(200, func(int) string { return "1" })}},
		{name: "no node passes", options: options{weight: 2000, nodes: rankedNodes(200, func(int) string { return "" })}},
		{name: "no node fits", options: options{weight: 2000, nodes: rankedNodes(200, byNumber)}, pod: rankedPod("large").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "9"}).Obj()},
		{name: "a tenth of 1,000 nodes is tried in vain", options: options{weight: 2000, nodes: rankedNodes(1000, fromHundredFifty)}, pod: rankedPod("p").NodeSelector(map[string]string{"rank": "20"}).Obj()},
		{name: "less than a tenth of 2,000 nodes is tried in vain", options: options{weight: 2000, nodes: rankedNodes(2000, fromHundredFifty)}, pod: rankedPod("p").NodeSelector(map[string]string{"rank": "20"}).Obj(), want: []string{"node-130"}},
		{name: "a node that the pod's own selector excludes", options: options{weight: 2000, nodes: rankedNodes(200, byNumber)}, pod: rankedPod("p").NodeSelector(map[string]string{"rank": "50"}).Obj(), want: []string{"node-50"}},
		{name: "nodes by name", options: options{weight: 2000, nodes: rankedNodes(200, byNumber)}, pod: rankedPod("p").NodeAffinityIn("metadata.name", []string{"node-3"}, 1).Obj(), want: []string{"node-3"}},
		{name: "a pod that is not ranked for", options: options{weight: 2000, nodes: rankedNodes(200, byNumber)}, pod: rankedPod("p").Label(rankerName, "").Obj()},
		{name: "100 nodes", options: options{weight: 2000, nodes: rankedNodes(100, byNumber)}},
		{name: "the profile wants all", options: options{weight: 2000, nodes: rankedNodes(200, byNumber), percentage: ptr.To[int32](100)}},
		{name: "a nominated pod", options: options{weight: 2000, nodes: rankedNodes(200, byNumber)}, pod: rankedPod("p").NominatedNodeName("node-9").Obj()},
		{name: "an extender filters", options: options{weight: 2000, nodes: rankedNodes(200, byNumber), extenders: []fwk.Extender{&extender{filters: true}}}, pod: rankedPod("p").Label("extended", "").Obj()},
		{name: "an extender scores", options: options{weight: 2000, nodes: rankedNodes(200, byNumber), extenders: []fwk.Extender{&extender{scores: true}}}, pod: rankedPod("p").Label("extended", "").Obj()},
		{name: "an extender that is not interested", options: options{weight: 2000, nodes: rankedNodes(200, byNumber), extenders: []fwk.Extender{&extender{filters: true}}}, want: []string{"node-0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.pod == nil {
				tt.pod = rankedPod("p").Obj()
			}
			_, got := newCluster(t, tt.options).offered(t, tt.pod)
			if tt.wantCount > 0 {
				if len(got) != tt.wantCount {
					t.Errorf("%d nodes are offered, want %d", len(got), tt.wantCount)
				}
				return
			}
			var names []string
			if got != nil {
				names = sets.List(got)
			}
			slices.SortFunc(names, func(a, b string) int { return len(a) - len(b) })
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("offered (-want,+got):\n%s", diff)
			}
		})
	}
}

// Where equal nodes are more than are offered, it is not always the same.
func TestEqualNodesInTurn(t *testing.T) {
	c := newCluster(t, options{weight: 2000, nodes: rankedNodes(1000, func(i int) string { return strconv.Itoa(min(i, 1)) })})
	seen := sets.New[string]()
	for range 10 {
		_, offered := c.offered(t, rankedPod("p").Obj())
		seen = seen.Union(offered)
	}
	if seen.Len() != 999 {
		t.Errorf("ten cycles offered %d of the 999 equal nodes", seen.Len())
	}
}

// What another plugin scores for the pod counts against the ranking of the first, unless it
// tells how it scores.
func TestTwoPlugins(t *testing.T) {
	tests := []struct {
		name string
		// ranker and second are what the two write, and weights those of their scores.
		ranker, second string
		weights        [2]int32
		want           int
	}{
		{name: "the second may score anything", ranker: ranks, weights: [2]int32{2000, 100}, want: 6},
		{name: "it scores none", ranker: ranks, second: scoresNone, weights: [2]int32{2000, 100}, want: 1},
		{name: "it ranks alike", ranker: ranks, second: ranks, weights: [2]int32{2000, 100}, want: 1},
		{name: "it ranks alike beside the first", ranker: ranks, second: ranksBeside, weights: [2]int32{2000, 100}, want: 1},
		{name: "neither decides alone", ranker: ranks, second: ranksBeside, weights: [2]int32{800, 800}, want: 1},
		{name: "none ranks of its own accord", ranker: ranksBeside, second: ranksBeside, weights: [2]int32{2000, 2000}},
		{name: "only the second ranks", ranker: scoresNone, second: ranks, weights: [2]int32{1, 2000}, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, options{nodes: rankedNodes(200, byNumber), weight: tt.weights[0], second: tt.weights[1]})
			pod := rankedPod("p").Labels(map[string]string{rankerName: tt.ranker, secondName: tt.second}).Obj()
			if _, got := c.offered(t, pod); got.Len() != tt.want {
				t.Errorf("%d nodes are offered, want %d", got.Len(), tt.want)
			}
		})
	}
}

// A cycle in which none of the offered nodes fits is repeated with all nodes, before
// preemption; the one after that is narrowed again.
func TestMissed(t *testing.T) {
	victim := full("node-0")
	victim.Spec.Priority = ptr.To[int32](0)
	c := newCluster(t, options{weight: 2000, nodes: rankedNodes(200, byNumber), pods: []*corev1.Pod{victim}})
	pod := rankedPod("p").Priority(100).PreemptionPolicy(corev1.PreemptNever).Obj()
	if err := c.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		state, offered := c.offered(t, pod)
		if !offered.Equal(sets.New("node-1")) {
			t.Fatalf("offered %v, want node-1", offered)
		}
		c.activated = nil
		result, status := c.RunPostFilterPlugins(t.Context(), state, pod, unschedulable{})
		if result != nil || status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Fatalf("PostFilter: %v, %v; want that it ends", result, status)
		}
		if diff := cmp.Diff([]string{"ns/p"}, c.activated); diff != "" {
			t.Errorf("activated (-want,+got):\n%s", diff)
		}
		state, offered = c.offered(t, pod)
		if offered != nil {
			t.Fatalf("offered %v after a cycle in which none fit, want all", offered)
		}
		c.activated = nil
		// Preemption is asked now, and says that the pod may not.
		if _, status := c.RunPostFilterPlugins(t.Context(), state, pod, unschedulable{}); status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "preemption") || len(c.activated) > 0 {
			t.Fatalf("PostFilter of a cycle that was not narrowed: %v, activated %v", status, c.activated)
		}
	}
}

// unschedulable says of all nodes that evicting pods may help.
type unschedulable struct{}

func (unschedulable) Get(string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable) }
func (unschedulable) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	if code != fwk.Unschedulable {
		return nil, nil
	}
	return lister.List()
}

// A plugin in the wrong place of its profile says so instead of doing without.
func TestWrongOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		options options
		want    string
	}{
		"PostFilter": {options{postFilterLast: true}, "plugins.postFilter.enabled: Invalid value: \"DefaultPreemption\": runs before NodeCandidates"},
		"PreFilter":  {options{second: 1, secondLast: true}, "plugins.preFilter.enabled: Invalid value: \"Second\": runs after NodeCandidates"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.options.nodes, tt.options.weight = rankedNodes(200, byNumber), 2000
			c := newCluster(t, tt.options)
			_, got, _ := c.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), rankedPod("p").Obj())
			if got.Code() != fwk.Error || !strings.Contains(got.Message(), tt.want) {
				t.Errorf("status %v, want an error with %q", got, tt.want)
			}
		})
	}
}
