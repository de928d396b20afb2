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
	"k8s.io/klog/v2/ktesting"
)

func TestSameSeedAndOrderGiveSameChoices(t *testing.T) {
	run := func(seed uint64, nodes []*corev1.Node) []string {
		c := newCluster(FitConstraints, NewRand(seed), DefaultOptions().wants)
		for _, node := range nodes {
			c.applyNode(node)
		}
		var chosen []string
		for i := range 200 {
			chosen = append(chosen, applyAndChoose(t, c, pendingPodObject(fmt.Sprint("pod-", i))).node)
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
	c := testCluster(FitConstraints, nodes...)
	reference := rand.New(rand.NewPCG(testSeed, 0))
	for i := range 1000 {
		got := applyAndChoose(t, c, pendingPodObject(fmt.Sprint("pod-", i)))
		if want := eligible[reference.IntN(len(eligible))]; got.node != want {
			t.Fatalf("choice %d is %q, want %q", i, got.node, want)
		}
		if got.eligible != 20 || got.nodes != 30 {
			t.Fatalf("choice %d was from %d of %d nodes, want 20 of 30", i, got.eligible, got.nodes)
		}
	}
}

func TestPodThatWaitsIsWoken(t *testing.T) {
	tests := []struct {
		name  string
		fit   Fit
		node  *corev1.Node
		pod   *corev1.Pod
		event func(c *cluster, node *corev1.Node, pod *corev1.Pod) []podKey
		want  bool
	}{
		{
			name:  "by a new node",
			node:  readyNode("n", withCordon),
			event: func(c *cluster, _ *corev1.Node, _ *corev1.Pod) []podKey { return c.applyNode(readyNode("new")) },
			want:  true,
		},
		{
			name: "by an uncordon",
			node: readyNode("n", withCordon),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				node.Spec.Unschedulable = false
				return c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a node that becomes ready",
			node: readyNode("n", withReady(corev1.ConditionUnknown)),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				withReady(corev1.ConditionTrue)(node)
				return c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a taint that goes",
			node: readyNode("n", withTaint("k", "v", corev1.TaintEffectNoSchedule)),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				node.Spec.Taints = nil
				return c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a label",
			node: readyNode("n"),
			pod:  pendingPodObject("p", withNodeSelector("disk", "ssd")),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				withLabel("disk", "ssd")(node)
				return c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a toleration that is added to it",
			node: readyNode("n", withTaint("k", "v", corev1.TaintEffectNoSchedule)),
			event: func(c *cluster, _ *corev1.Node, pod *corev1.Pod) []podKey {
				withToleration(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})(pod)
				return c.applyPod(pod)
			},
			want: true,
		},
		{
			name: "by a node that grows, if resources matter",
			fit:  FitResources,
			node: readyNode("n", withAllocatable("pods", "0")),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				withAllocatable("pods", "1")(node)
				return c.applyNode(node)
			},
			want: true,
		},
		{
			name: "by a bound pod that is deleted, if resources matter",
			fit:  FitResources,
			node: readyNode("n", withAllocatable("pods", "1")),
			event: func(c *cluster, _ *corev1.Node, _ *corev1.Pod) []podKey {
				return c.removePod(pendingPodObject("other", withNode("n")))
			},
			want: true,
		},
		{
			name: "by a bound pod that finishes, if resources matter",
			fit:  FitResources,
			node: readyNode("n", withAllocatable("pods", "1")),
			event: func(c *cluster, _ *corev1.Node, _ *corev1.Pod) []podKey {
				return c.applyPod(pendingPodObject("other", withNode("n"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
			},
			want: true,
		},
		{
			name: "not by a heartbeat",
			node: readyNode("n", withCordon),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				node.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
				node.Annotations = map[string]string{"beat": "1"}
				return c.applyNode(node)
			},
		},
		{
			name: "not by its own condition, or every attempt would cause the next",
			node: readyNode("n", withCordon),
			event: func(c *cluster, _ *corev1.Node, pod *corev1.Pod) []podKey {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
				return c.applyPod(pod)
			},
		},
		{
			name: "not by a node that goes",
			node: readyNode("n", withCordon),
			event: func(c *cluster, node *corev1.Node, _ *corev1.Pod) []podKey {
				c.removeNode(node.Name)
				return nil
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
			c := testCluster(fit, tt.node)
			c.applyPod(pendingPodObject("other", withNode("n")))
			if got := applyAndChoose(t, c, pod); got.node != "" {
				t.Fatalf("chose %s before the event, want no node", got.node)
			}
			if _, parked := c.counts(); parked != 1 {
				t.Fatalf("%d pods are parked, want 1", parked)
			}

			woken := tt.event(c, tt.node.DeepCopy(), pod.DeepCopy())

			if got := slices.Contains(woken, keyOf(pod)); got != tt.want {
				t.Errorf("woken = %v, want %v", got, tt.want)
			}
			if _, parked := c.counts(); parked == 1 == tt.want {
				t.Errorf("%d pods are parked afterwards", parked)
			}
		})
	}
}

func TestPodsThatAreNotOurs(t *testing.T) {
	options := DefaultOptions()
	options.Namespaces = []string{"default", "blue"}
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
		{"finished without ever running", pendingPodObject("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(FitConstraints, NewRand(testSeed), options.wants)
			c.applyNode(readyNode("n"))
			enqueued := c.applyPod(tt.pod)
			if got := len(enqueued) == 1; got != tt.want {
				t.Errorf("applyPod returned %v, want a key: %v", enqueued, tt.want)
			}
			logger, _ := ktesting.NewTestContext(t)
			if got := c.choose(logger, keyOf(tt.pod)).node != ""; got != tt.want {
				t.Errorf("got a node: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPodThatStopsBeingOurs(t *testing.T) {
	c := testCluster(FitConstraints, readyNode("n"))
	c.applyPod(pendingPodObject("p"))
	gone := pendingPodObject("p", func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now })
	if got := applyAndChoose(t, c, gone); got.pod != nil {
		t.Errorf("chose %s for a pod that is being deleted", got.node)
	}
}

func TestUngatedPodIsTried(t *testing.T) {
	c := testCluster(FitConstraints, readyNode("n"))
	gated := pendingPodObject("p", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	if got := c.applyPod(gated); len(got) != 0 {
		t.Fatalf("gated pod was enqueued: %v", got)
	}
	if diff := cmp.Diff([]podKey{keyOf(gated)}, c.applyPod(pendingPodObject("p"))); diff != "" {
		t.Errorf("after the gate was removed (-want,+got):\n%s", diff)
	}
}

func TestChosenPodIsNotChosenForAgain(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	pod := pendingPodObject("p")
	c := testCluster(FitConstraints, numberedNodes(5)...)
	first := applyAndChoose(t, c, pod)
	if first.node == "" {
		t.Fatal("got no node")
	}
	// The watch still shows the pod without a node.
	if again := c.choose(logger, keyOf(pod)); again.pod != nil {
		t.Errorf("a bound pod was given %q", again.node)
	}
	// A pod of the same name is another pod.
	reborn := pod.DeepCopy()
	reborn.UID = "reborn"
	if got := applyAndChoose(t, c, reborn); got.pod == nil || got.pod.UID != "reborn" || got.again {
		t.Errorf("the pod that took over the name got %+v, want a choice of its own", got)
	}
	if keys := c.refuse(keyOf(pod), pod.UID); keys != nil {
		t.Errorf("a late answer about the first pod woke %v", keys)
	}
	if got := c.choose(logger, keyOf(pod)); got.pod != nil {
		t.Error("a late answer about the first pod undid the choice for the second")
	}
}

func TestBindingInDoubtIsRepeatedForTheSameNode(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	for i := range 50 {
		pod := pendingPodObject(fmt.Sprint("pod-", i), withRequests("cpu", "4"))
		c := testCluster(FitResources, numberedNodes(5)...)
		c.rng = NewRand(uint64(i) + 1)
		first := applyAndChoose(t, c, pod)
		c.doubt(keyOf(pod), pod.UID)

		// What it may hold, nobody else gets.
		var others []string
		for j := range 6 {
			others = append(others, applyAndChoose(t, c, pendingPodObject(fmt.Sprint("other-", j), withRequests("cpu", "1"))).node)
		}
		if slices.Contains(others, first.node) {
			t.Fatalf("%s was given away while a Binding to it is in doubt", first.node)
		}
		again := c.choose(logger, keyOf(pod))
		if again.node != first.node || !again.again {
			t.Fatalf("second choice is %+v, want %s again", again, first.node)
		}
	}
}

// TestBindingInDoubtMovesOnOnlyWhenItIsUndone: a node that no longer admits the
// pod may have got it all the same, so its room is not given away before the API
// server says that the pod has no node.
func TestBindingInDoubtMovesOnOnlyWhenItIsUndone(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	// inDoubt has pod p, of 1 cpu, in doubt on the first of two nodes of 1 cpu,
	// which was cordoned since.
	inDoubt := func(t *testing.T) (c *cluster, pod *corev1.Pod, first, other string) {
		c = testCluster(FitResources, numberedNodes(2, withAllocatable("cpu", "1", "pods", "9"))...)
		pod = pendingPodObject("p", withRequests("cpu", "1"))
		first, other = applyAndChoose(t, c, pod).node, "node-0000"
		if first == other {
			other = "node-0001"
		}
		c.doubt(keyOf(pod), pod.UID)
		c.applyNode(readyNode(first, withAllocatable("cpu", "1", "pods", "9"), withCordon))
		return c, pod, first, other
	}
	uncordon := func(c *cluster, node string) {
		c.applyNode(readyNode(node, withAllocatable("cpu", "1", "pods", "9")))
	}

	t.Run("before", func(t *testing.T) {
		c, pod, first, other := inDoubt(t)
		if got := c.choose(logger, keyOf(pod)); got.node != first || !got.ask || !got.again {
			t.Fatalf("second choice is %+v, want a question about %s", got, first)
		}
		uncordon(c, first)
		for _, name := range []string{"q", "r"} {
			if got := applyAndChoose(t, c, pendingPodObject(name, withRequests("cpu", "1"))).node; got == first {
				t.Errorf("%s was given the room on %s that p may have", name, first)
			}
		}
		if got := c.choose(logger, keyOf(pod)); got.node != first || got.ask {
			t.Errorf("choice after the uncordon is %+v, want %s again (other is %s)", got, first, other)
		}
	})
	t.Run("it was done", func(t *testing.T) {
		c, pod, first, _ := inDoubt(t)
		c.choose(logger, keyOf(pod))
		c.settle(keyOf(pod), pod.UID, first)
		if got := c.held.pods[pod.UID].node; got != first {
			t.Errorf("the pod counts on %q, want %q", got, first)
		}
		if got := c.choose(logger, keyOf(pod)); got.pod != nil {
			t.Errorf("a settled pod was given %q", got.node)
		}
	})
	t.Run("it was not done", func(t *testing.T) {
		c, pod, first, other := inDoubt(t)
		c.choose(logger, keyOf(pod))
		c.refuse(keyOf(pod), pod.UID)
		if got := c.choose(logger, keyOf(pod)); got.node != other || got.ask || !got.again {
			t.Errorf("choice is %+v, want %s, with the first Binding remembered", got, other)
		}
		uncordon(c, first)
		if got := applyAndChoose(t, c, pendingPodObject("q", withRequests("cpu", "1"))).node; got != first {
			t.Errorf("q got %q, want %s, which is free again", got, first)
		}
	})
}

func TestRefusedBindingFreesWhatItHeld(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	c := testCluster(FitResources, readyNode("n", withAllocatable("pods", "1")))
	first, second := pendingPodObject("first"), pendingPodObject("second")
	applyAndChoose(t, c, first)
	if got := applyAndChoose(t, c, second); got.node != "" {
		t.Fatalf("%s was overcommitted", got.node)
	}
	if diff := cmp.Diff([]podKey{keyOf(second)}, c.refuse(keyOf(first), first.UID)); diff != "" {
		t.Errorf("pods to try again (-want,+got):\n%s", diff)
	}
	if got := c.choose(logger, keyOf(second)); got.node != "n" {
		t.Errorf("second pod got %q, want n", got.node)
	}
}

func TestHoldingsFollowTheAPI(t *testing.T) {
	c := testCluster(FitResources, readyNode("n", withAllocatable("cpu", "4", "pods", "10")))
	requests := func() string {
		cpu := c.held.used("n")["cpu"]
		return cpu.String()
	}
	pod := pendingPodObject("p", withRequests("cpu", "3"))
	applyAndChoose(t, c, pod)
	if got := requests(); got != "3" {
		t.Errorf("after the choice the node holds %s cpu, want 3", got)
	}
	bound := pendingPodObject("p", withRequests("cpu", "3"), withNode("n"))
	c.applyPod(bound)
	c.applyPod(bound)
	if got := requests(); got != "3" {
		t.Errorf("after the watch has shown it twice the node holds %s cpu, want 3", got)
	}
	c.applyPod(pendingPodObject("p", withRequests("cpu", "1"), withNode("n")))
	if got := requests(); got != "1" {
		t.Errorf("after a resize the node holds %s cpu, want 1", got)
	}
	c.applyPod(pendingPodObject("foreign", withRequests("cpu", "2"), withNode("n"), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }))
	if got := requests(); got != "3" {
		t.Errorf("with another scheduler's pod the node holds %s cpu, want 3", got)
	}
	c.removePod(pendingPodObject("p"))
	c.removePod(pendingPodObject("p"))
	c.removePod(pendingPodObject("foreign"))
	if len(c.held.nodes) != 0 || len(c.held.pods) != 0 {
		t.Errorf("after all pods went the cluster still holds %v, %v", c.held.nodes, c.held.pods)
	}
}

// TestConcurrentUseNeverOvercommits has many goroutines choose, bind, fail and
// delete at once, and checks after each choice what a node's pods add up to. Run
// it with -race.
func TestConcurrentUseNeverOvercommits(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	nodes := numberedNodes(4, withAllocatable("cpu", "10", "pods", "8"))
	c := testCluster(FitResources, nodes...)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rng := NewRand(uint64(worker) + 1)
			for i := range 300 {
				pod := pendingPodObject(fmt.Sprintf("pod-%d-%d", worker, i), withRequests("cpu", strconv.Itoa(1+rng.IntN(4))))
				c.applyPod(pod)
				got := c.choose(logger, keyOf(pod))
				if over := overcommitted(c, nodes); over != "" {
					t.Error(over)
					return
				}
				switch rng.IntN(4) {
				case 0:
					c.refuse(keyOf(pod), pod.UID)
				case 1:
					c.doubt(keyOf(pod), pod.UID)
				case 2:
					if got.node != "" {
						bound := pod.DeepCopy()
						bound.Spec.NodeName = got.node
						c.applyPod(bound)
					}
				}
				c.counts()
				c.applyNode(readyNode(nodes[rng.IntN(4)].Name, withAllocatable("cpu", "10", "pods", "8")))
				c.removePod(pod)
			}
		})
	}
	wg.Wait()
	if len(c.held.nodes) != 0 || len(c.held.pods) != 0 || len(c.pending) != 0 || len(c.parked) != 0 {
		t.Errorf("all pods are gone, but used=%v held=%v pending=%v parked=%v", c.held.nodes, c.held.pods, c.pending, c.parked)
	}
}

// overcommitted adds up the holdings by node, independently of their sums.
func overcommitted(c *cluster, nodes []*corev1.Node) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range nodes {
		sum := corev1.ResourceList{}
		for _, h := range c.held.pods {
			if h.node != node.Name {
				continue
			}
			for name, q := range h.requests {
				s := sum[name]
				s.Add(q)
				sum[name] = s
			}
		}
		for name, s := range sum {
			if limit := node.Status.Allocatable[name]; s.Cmp(limit) > 0 {
				return fmt.Sprintf("node %s holds %s %s, has %s", node.Name, s.String(), name, limit.String())
			}
		}
	}
	return ""
}
