// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestSameSeedAndOrderGiveSameChoices(t *testing.T) {
	run := func(seed uint64, nodes []*corev1.Node) []string {
		c := newTestCluster(FitConstraints, nodes...)
		c.rng = newRand(seed)
		var chosen []string
		for i := range 200 {
			chosen = append(chosen, c.applyAndChoose(t, pendingPodObject(fmt.Sprint("pod-", i))).node)
		}
		return chosen
	}
	nodes := numberedNodes(20)
	want := run(testSeed, nodes)

	// The order in which a watch delivers the nodes is not up to us.
	shuffled := slices.Clone(nodes)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if diff := cmp.Diff(want, run(testSeed, shuffled)); diff != "" {
		t.Errorf("same seed, nodes seen in another order (-want,+got):\n%s", diff)
	}
	if cmp.Equal(want, run(testSeed+1, nodes)) {
		t.Error("another seed gave the same 200 choices")
	}
}

func TestChoiceIsTheDrawnOneOfTheEligible(t *testing.T) {
	// Every third node is cordoned, so that eligible and all nodes differ.
	var nodes []*corev1.Node
	var eligible []string
	for i, node := range numberedNodes(30) {
		if i%3 == 0 {
			withCordon(node)
		} else {
			eligible = append(eligible, node.Name)
		}
		nodes = append(nodes, node)
	}
	c := newTestCluster(FitConstraints, nodes...)
	reference := rand.New(rand.NewPCG(testSeed, 0))
	for i := range 1000 {
		got := c.applyAndChoose(t, pendingPodObject(fmt.Sprint("pod-", i)))
		if want := eligible[reference.IntN(len(eligible))]; got.node != want {
			t.Fatalf("choice %d is %q, want %q", i, got.node, want)
		}
		if got.feasible != 20 || got.nodes != 30 {
			t.Fatalf("choice %d was from %d of %d nodes, want 20 of 30", i, got.feasible, got.nodes)
		}
	}
}

func TestPodThatWaitsIsWoken(t *testing.T) {
	tests := []struct {
		name  string
		fit   Fit
		node  *corev1.Node
		pod   *corev1.Pod
		event func(c *testCluster, node *corev1.Node, pod *corev1.Pod)
		want  bool
	}{
		{
			name:  "by a new node",
			node:  readyNode("n", withCordon),
			event: func(c *testCluster, _ *corev1.Node, _ *corev1.Pod) { c.applyNode(readyNode("new")) },
			want:  true,
		},
		{
			name: "by an uncordon",
			node: readyNode("n", withCordon),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				node.Spec.Unschedulable = false
				c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a node that becomes ready",
			node: readyNode("n", withReady(corev1.ConditionUnknown)),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				withReady(corev1.ConditionTrue)(node)
				c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a taint that goes",
			node: readyNode("n", withTaint("k", "v", corev1.TaintEffectNoSchedule)),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				node.Spec.Taints = nil
				c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a label",
			node: readyNode("n"),
			pod:  pendingPodObject("p", withNodeSelector("disk", "ssd")),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				withLabel("disk", "ssd")(node)
				c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a toleration that is added to it",
			node: readyNode("n", withTaint("k", "v", corev1.TaintEffectNoSchedule)),
			event: func(c *testCluster, _ *corev1.Node, pod *corev1.Pod) {
				withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})(pod)
				c.applyPod(pod)
			},
			want: true,
		},
		{
			name: "by a node that grows, if resources matter",
			fit:  FitResources,
			node: readyNode("n", withAllocatable("pods", "0")),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				withAllocatable("pods", "1")(node)
				c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a bound pod that is deleted, if resources matter",
			fit:  FitResources,
			node: readyNode("n", withAllocatable("pods", "1")),
			event: func(c *testCluster, _ *corev1.Node, _ *corev1.Pod) {
				c.removePod(podKey{Namespace: "default", Name: "other"})
			},
			want: true,
		},
		{
			name: "not by a heartbeat",
			node: readyNode("n", withCordon),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				node.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
				node.Annotations = map[string]string{"beat": "1"}
				c.applyNode(node)
			},
		},
		{
			name: "not by its own condition, or every attempt would cause the next",
			node: readyNode("n", withCordon),
			event: func(c *testCluster, _ *corev1.Node, pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
				c.applyPod(pod)
			},
		},
		{
			name: "not by a node that goes",
			node: readyNode("n", withCordon),
			event: func(c *testCluster, node *corev1.Node, _ *corev1.Pod) {
				c.removeNode(node.Name)
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fit, pod := tt.fit, tt.pod
			if fit == "" {
				fit = FitConstraints
			}
			if pod == nil {
				pod = pendingPodObject("p")
			}
			c := newTestCluster(fit, tt.node)
			c.applyPod(pendingPodObject("other", withNode("n")))
			if got := c.applyAndChoose(t, pod); got.node != "" {
				t.Fatalf("chose %s before the event, want no node", got.node)
			}
			if _, unschedulable := c.counts(); unschedulable != 1 {
				t.Fatalf("%d pods are unschedulable, want 1", unschedulable)
			}
			clear(c.queued)

			tt.event(c, tt.node.DeepCopy(), pod.DeepCopy())

			if got := c.queued.Has(cache.MetaObjectToName(pod)); got != tt.want {
				t.Errorf("woken = %v, want %v", got, tt.want)
			}
			if _, unschedulable := c.counts(); unschedulable == 1 == tt.want {
				t.Errorf("%d pods are unschedulable afterwards", unschedulable)
			}
		})
	}
}

func TestPodsThatAreNotOurs(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"ours", pendingPodObject("p"), true},
		{"ours, in the second namespace", pendingPodObject("p", func(p *corev1.Pod) { p.Namespace = "blue" }), true},
		{"another scheduler's", pendingPodObject("p", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), false},
		{"in a namespace that is not listed", pendingPodObject("p", func(p *corev1.Pod) { p.Namespace = "red" }), false},
		{"gated", pendingPodObject("p", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), false},
		{"being deleted", pendingPodObject("p", func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }), false},
		{"with a node", pendingPodObject("p", withNode("n")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestCluster(FitConstraints, readyNode("n"))
			c.options.Namespaces = []string{"default", "blue"}
			got := c.applyAndChoose(t, tt.pod).node != ""
			if queued := c.queued.Len() == 1; queued != tt.want || got != tt.want {
				t.Errorf("queued: %v, got a node: %v, want %v", queued, got, tt.want)
			}
		})
	}
}

func TestPodThatStopsAndStartsBeingOurs(t *testing.T) {
	c := newTestCluster(FitConstraints, readyNode("n"))
	c.applyPod(pendingPodObject("p"))
	gated := pendingPodObject("p", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	if got := c.applyAndChoose(t, gated); got.pod != nil {
		t.Errorf("chose %s for a pod that is gated", got.node)
	}
	clear(c.queued)
	if got := c.applyAndChoose(t, pendingPodObject("p")); got.node != "n" || c.queued.Len() != 1 {
		t.Errorf("got %q and %v in the queue, want n and the pod", got.node, c.queued)
	}
}

// TestLostAnswerKeepsTheRoom: a Binding without an answer may be carried out at any
// time, so what it takes is given to no other pod before the watch has shown where
// its pod is.
func TestLostAnswerKeepsTheRoom(t *testing.T) {
	one := withAllocatable("cpu", "1", "pods", "9")
	ofOne := withRequests("cpu", "1")
	other := pendingPodObject("other", ofOne)
	// Pod p was sent to both of two nodes of 1 cpu, and no answer came.
	sent := func(t *testing.T) (*testCluster, *corev1.Pod) {
		t.Helper()
		c := newTestCluster(FitResources, readyNode("n0", one))
		pod := pendingPodObject("p", ofOne)
		for i, node := range []string{"n0", "n1"} {
			if got := c.applyAndChoose(t, pod); got.node != node || got.again {
				t.Fatalf("choice %d is %+v, want %s", i, got, node)
			}
			// The first does not admit the pod any more, or it might be drawn again.
			c.applyNode(readyNode(node, one, withCordon))
			c.applyNode(readyNode("n1", one))
		}
		c.applyNode(readyNode("n0", one))
		c.applyNode(readyNode("n1", one))
		if got := c.applyAndChoose(t, other); got.node != "" {
			t.Fatalf("the room on %s was given away", got.node)
		}
		return c, pod
	}
	t.Run("it is bound to the first", func(t *testing.T) {
		c, pod := sent(t)
		bound := pod.DeepCopy()
		bound.Spec.NodeName = "n0"
		c.applyPod(bound)
		if got := c.applyAndChoose(t, other); got.node != "n1" {
			t.Errorf("the other pod got %q, want n1", got.node)
		}
	})
	t.Run("it is deleted", func(t *testing.T) {
		c, pod := sent(t)
		c.removePod(cache.MetaObjectToName(pod))
		if got := c.applyAndChoose(t, other); got.node == "" {
			t.Error("the other pod got no node")
		}
	})
	t.Run("its name is used again", func(t *testing.T) {
		c, pod := sent(t)
		again := pod.DeepCopy()
		again.UID = "again"
		c.applyPod(again)
		if got := c.applyAndChoose(t, other); got.node == "" {
			t.Error("the other pod got no node")
		}
	})
	t.Run("it is sent to the same node again, and refused", func(t *testing.T) {
		c, pod := sent(t)
		got := c.applyAndChoose(t, pod)
		if !got.again {
			t.Fatalf("choice is %+v, want a node again", got)
		}
		c.refused(cache.MetaObjectToName(pod), got)
		if got := c.applyAndChoose(t, other); got.node != "" {
			t.Errorf("the room on %s was given away", got.node)
		}
	})
}

func TestRefusedBindingFreesTheRoom(t *testing.T) {
	c := newTestCluster(FitResources, readyNode("n", withAllocatable("pods", "1")))
	first, second := pendingPodObject("first"), pendingPodObject("second")
	made := c.applyAndChoose(t, first)
	if got := c.applyAndChoose(t, second); got.node != "" {
		t.Fatalf("%s was overcommitted", got.node)
	}
	clear(c.queued)
	late := made
	late.pod = pendingPodObject("first", func(p *corev1.Pod) { p.UID = "replaced" })
	c.refused(cache.MetaObjectToName(first), late)
	if c.queued.Len() != 0 {
		t.Errorf("an answer about a pod of the same name woke %v", c.queued)
	}
	c.refused(cache.MetaObjectToName(first), made)
	if !c.queued.Has(cache.MetaObjectToName(second)) {
		t.Errorf("queued are %v, want the second pod", c.queued)
	}
	if got := c.applyAndChoose(t, second); got.node != "n" {
		t.Errorf("second pod got %q, want n", got.node)
	}
}

func TestRequestedFollowsTheAPI(t *testing.T) {
	c := newTestCluster(FitResources, readyNode("n", withAllocatable("cpu", "4", "pods", "10")))
	requested := func(when, want string) {
		t.Helper()
		cpu := c.requested["n"]["cpu"]
		if got := cpu.String(); got != want {
			t.Errorf("%s %s cpu are requested, want %s", when, got, want)
		}
	}
	c.applyAndChoose(t, pendingPodObject("p", withRequests("cpu", "3")))
	requested("after the choice", "3")
	for range 2 {
		c.applyPod(pendingPodObject("p", withRequests("cpu", "3"), withNode("n")))
	}
	requested("after the watch has shown it twice", "3")
	c.applyPod(pendingPodObject("p", withRequests("cpu", "1"), withNode("n")))
	requested("after a resize", "1")
	c.applyPod(pendingPodObject("foreign", withRequests("cpu", "2"), withNode("n"), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }))
	requested("with another scheduler's pod", "3")
	for _, name := range []string{"p", "p", "foreign"} {
		c.removePod(podKey{Namespace: "default", Name: name})
	}
	if len(c.requested) != 0 || len(c.pods) != 0 {
		t.Errorf("after all pods went there are still %v, %v", c.requested, c.pods)
	}
}

// TestConcurrentUseNeverOvercommits has many goroutines choose, bind, fail and
// delete at once, and checks after each choice what a node's pods add up to. Run
// it with -race.
func TestConcurrentUseNeverOvercommits(t *testing.T) {
	nodes := numberedNodes(4, withAllocatable("cpu", "10", "pods", "8"))
	c := newTestCluster(FitResources, nodes...)
	c.enqueue = func(podKey) {}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rng := newRand(uint64(worker) + 1)
			for i := range 300 {
				pod := pendingPodObject(fmt.Sprintf("pod-%d-%d", worker, i), withRequests("cpu", strconv.Itoa(1+rng.IntN(4))))
				key := cache.MetaObjectToName(pod)
				c.applyPod(pod)
				for range 1 + rng.IntN(2) { // the second time, the first answer was lost
					made := c.choose(klog.Background(), key)
					if over := overcommitted(c.cluster, nodes); over != "" {
						t.Error(over)
						return
					}
					if made.node == "" {
						continue
					}
					switch rng.IntN(3) {
					case 0:
						c.refused(key, made)
					case 1:
						bound := pod.DeepCopy()
						bound.Spec.NodeName = made.node
						c.applyPod(bound)
					}
				}
				c.counts()
				c.applyNode(readyNode(nodes[rng.IntN(4)].Name, withAllocatable("cpu", "10", "pods", "8")))
				c.removePod(key)
			}
		})
	}
	wg.Wait()
	if len(c.requested) != 0 || len(c.pods) != 0 || c.unschedulable.Len() != 0 {
		t.Errorf("all pods are gone, but requested=%v pods=%v unschedulable=%v", c.requested, c.pods, c.unschedulable)
	}
}

// overcommitted adds up what pods take by node, independently of the sums.
func overcommitted(c *cluster, nodes []*corev1.Node) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range nodes {
		sum := corev1.ResourceList{}
		for _, p := range c.pods {
			if !p.assumed.Has(node.Name) {
				continue
			}
			for name, q := range p.requests {
				s := sum[name]
				s.Add(q)
				sum[name] = s
			}
		}
		for name, s := range sum {
			if limit := node.Status.Allocatable[name]; s.Cmp(limit) > 0 {
				return fmt.Sprintf("the pods on node %s request %s %s, it has %s", node.Name, s.String(), name, limit.String())
			}
		}
	}
	return ""
}
