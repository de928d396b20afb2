// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// longBackoff makes an event the only thing that can have a pod tried again
// before the test gives up.
const longBackoff = "--pod-initial-backoff=1h"

const maxBackoff = "--pod-max-backoff=1h"

// setReady writes the Ready condition of a node with a custom status.
func setReady(t *testing.T, c *framework.Cluster, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","lastHeartbeatTime":null}]}}`, status)
	if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func cordonedAndNotReadyNodesGetNone(t *testing.T) {
	// kwok keeps its hands off nodes 0 and 1, so that they are not ready.
	nodes := localcluster.FakeNodes(6)
	for i := range 2 {
		nodes[i].Annotations[localcluster.CustomStatusAnnotation] = localcluster.CustomStatus
	}
	nodes[2].Spec.Unschedulable = true
	nodes[3].Spec.Unschedulable = true
	c := start(t, nodes)
	setReady(t, c, "node-0", corev1.ConditionFalse)
	setReady(t, c, "node-1", corev1.ConditionUnknown)
	for _, fit := range []string{"constraints", "resources"} {
		t.Run(fit, func(t *testing.T) {
			// A scheduler name of its own each, so that both can run.
			name := "random-" + fit
			run(t, c, "--fit="+fit, "--scheduler-name="+name)
			// The pods tolerate the taints that the node controller puts on these
			// nodes, so that the nodes' state alone decides.
			createMany(t, c, 60, fit, tolerateAll, func(p *corev1.Pod) { p.Spec.SchedulerName = name })
			for i := range 60 {
				pod := c.WaitForPodScheduled(t, "default", fmt.Sprintf("%s-%d", fit, i))
				if node := pod.Spec.NodeName; node != "node-4" && node != "node-5" {
					t.Errorf("%s is on %s", pod.Name, node)
				}
			}
		})
	}
}

func nodeThatBecomesUnreadyGetsNoMore(t *testing.T) {
	nodes := localcluster.FakeNodes(2)
	nodes[0].Annotations[localcluster.CustomStatusAnnotation] = localcluster.CustomStatus
	nodes[1].Spec.Unschedulable = true
	c := start(t, nodes)
	setReady(t, c, "node-0", corev1.ConditionTrue)
	run(t, c, longBackoff, maxBackoff)
	create(t, c, newPod("before", tolerateAll))
	if got := c.WaitForPodScheduled(t, "default", "before").Spec.NodeName; got != "node-0" {
		t.Fatalf("the first pod is on %s, want node-0", got)
	}
	setReady(t, c, "node-0", corev1.ConditionFalse)
	// The pod and the node arrive through two watches. Only the message tells that
	// the binder has seen the node; until then a pod may still go there.
	var message string
	for i := 0; message == ""; i++ {
		name := fmt.Sprintf("probe-%d", i)
		create(t, c, newPod(name, tolerateAll))
		framework.WaitForCondition(t, framework.WaitTimeout, name+" to be decided on", func() (bool, error) {
			pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if condition := framework.PodScheduledCondition(pod); condition != nil && condition.Status == corev1.ConditionFalse {
				message = condition.Message
				return true, nil
			}
			return pod.Spec.NodeName != "", nil
		})
	}
	const want = "0/2 nodes are available (--fit=constraints): 1 node(s) cordoned (kubectl uncordon); 1 node(s) not ready (kubectl describe node says why)"
	if message != want {
		t.Errorf("message is %q, want %q", message, want)
	}
}

func pendingPodIsWokenAndSaysWhyItWaits(t *testing.T) {
	tests := []struct {
		name    string
		node    func(*corev1.Node)
		pod     func(*corev1.Pod)
		args    []string
		reason  string
		wayOut  string
		resolve func(t *testing.T, c *framework.Cluster, waits, first string)
	}{
		{
			name:    "uncordon",
			node:    func(n *corev1.Node) { n.Spec.Unschedulable = true },
			pod:     tolerateAll,
			reason:  "1 node(s) cordoned",
			wayOut:  "kubectl uncordon",
			resolve: func(t *testing.T, c *framework.Cluster, _, _ string) { c.Kubectl(t, "uncordon", "node-0") },
		},
		{
			name:   "a label",
			node:   func(*corev1.Node) {},
			pod:    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"device": "gpu"} },
			reason: "1 node(s) not matching the pod's nodeSelector or required node affinity",
			wayOut: "label a node",
			resolve: func(t *testing.T, c *framework.Cluster, _, _ string) {
				c.Kubectl(t, "label", "node", "node-0", "device=gpu")
			},
		},
		{
			name: "a taint removed",
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
			},
			pod:    func(*corev1.Pod) {},
			reason: "1 node(s) with taint team=db:NoSchedule that the pod does not tolerate",
			wayOut: "remove the taint",
			resolve: func(t *testing.T, c *framework.Cluster, _, _ string) {
				c.Kubectl(t, "taint", "node", "node-0", "team-")
			},
		},
		{
			name: "a toleration added",
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
			},
			pod:    func(*corev1.Pod) {},
			reason: "1 node(s) with taint team=db:NoSchedule that the pod does not tolerate",
			wayOut: "add to spec.tolerations",
			resolve: func(t *testing.T, c *framework.Cluster, waits, _ string) {
				patch := []byte(`[{"op":"add","path":"/spec/tolerations/-","value":{"key":"team","operator":"Exists"}}]`)
				if _, err := c.Client.CoreV1().Pods("default").Patch(t.Context(), waits, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a new node",
			node: func(n *corev1.Node) { n.Spec.Unschedulable = true },
			pod:  func(*corev1.Pod) {},
			resolve: func(t *testing.T, c *framework.Cluster, _, _ string) {
				node := localcluster.FakeNodes(2)[1]
				c.AddNode(t, node)
			},
			reason: "1 node(s) cordoned",
			wayOut: "kubectl uncordon",
		},
		{
			name: "room on the node",
			node: func(*corev1.Node) {},
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
			},
			args:   []string{"--fit=resources"},
			reason: "1 node(s) with too little cpu left",
			wayOut: "free or add some",
			resolve: func(t *testing.T, c *framework.Cluster, _, first string) {
				c.Kubectl(t, "delete", "pod", first, "--wait=false")
			},
		},
	}
	c := start(t, nil)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Events stay, so no two pods may have the same name.
			waits, first := fmt.Sprintf("waits-%d", i), fmt.Sprintf("first-%d", i)
			node := framework.Node("node-0", nil)
			tt.node(&node)
			c.AddNode(t, node)
			p := run(t, c, append(tt.args, longBackoff, maxBackoff)...)
			defer func() {
				p.Stop(t)
				c.Kubectl(t, "delete", "pods", "--all", "--force", "--grace-period=0")
				c.Kubectl(t, "delete", "nodes", "--all")
			}()
			if tt.args != nil {
				create(t, c, newPod(first, tt.pod))
				c.WaitForPodScheduled(t, "default", first)
			}
			create(t, c, newPod(waits, tt.pod))
			condition := framework.PodScheduledCondition(c.WaitForPodUnschedulable(t, "default", waits))
			event := c.WaitForEvent(t, "default", waits, "FailedScheduling", "")
			for source, text := range map[string]string{"condition": condition.Message, "event": event} {
				for _, want := range []string{"0/1 nodes are available", tt.reason, tt.wayOut} {
					if !strings.Contains(text, want) {
						t.Errorf("%s says %q, want it to contain %q", source, text, want)
					}
				}
			}

			tt.resolve(t, c, waits, first)

			pod := c.WaitForPodScheduled(t, "default", waits)
			if got := framework.PodScheduledCondition(pod).Status; got != corev1.ConditionTrue {
				t.Errorf("PodScheduled is %s after the pod got a node", got)
			}
			c.WaitForEvent(t, "default", waits, "Scheduled", "picked at random from 1 of ")
		})
	}
}

func podsThatAreNotItsOwnStayPending(t *testing.T) {
	c := start(t, localcluster.FakeNodes(3))
	for _, namespace := range []string{"blue", "red"} {
		c.Kubectl(t, "create", "namespace", namespace)
	}
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }
	create(t, c, newPod("gated", inNamespace("blue"), gated))
	create(t, c, newPod("outside", inNamespace("red")))
	create(t, c, newPod("outside"))
	create(t, c, newPod("foreign", inNamespace("blue"), func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" }))
	for _, fit := range []string{"constraints", "resources"} {
		t.Run(fit, func(t *testing.T) {
			p := run(t, c, "--namespaces=blue", "--fit="+fit)
			// That the others were not tried at all, the audit log says below.
			create(t, c, newPod("own-"+fit, inNamespace("blue")))
			c.WaitForPodScheduled(t, "blue", "own-"+fit)
			if code := p.Stop(t); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0", code)
			}
		})
	}
	p := run(t, c, "--namespaces=blue")
	if _, err := c.Client.CoreV1().Pods("blue").Patch(t.Context(), "gated", types.StrategicMergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitForPodScheduled(t, "blue", "gated")
	p.Stop(t)

	asked := map[string]bool{}
	for _, b := range bindings(t, c) {
		asked[b.pod] = true
		if b.code >= 300 {
			t.Errorf("a Binding of %s was refused with %d: the pod should not have been tried", b.pod, b.code)
		}
	}
	for _, pod := range list(t, c, "") {
		name := pod.Namespace + "/" + pod.Name
		switch name {
		case "red/outside", "default/outside", "blue/foreign":
			if pod.Spec.NodeName != "" || asked[name] {
				t.Errorf("%s was bound", name)
			}
			if condition := framework.PodScheduledCondition(&pod); condition != nil {
				t.Errorf("%s was given the condition %v", name, condition)
			}
		}
	}
}

func resourcesAreNeverOvercommitted(t *testing.T) {
	nodes := localcluster.FakeNodes(4)
	for i := range nodes {
		capacity := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10"), corev1.ResourceMemory: resource.MustParse("20Gi"), corev1.ResourcePods: resource.MustParse("12"),
		}
		nodes[i].Status.Capacity, nodes[i].Status.Allocatable = capacity, capacity
	}
	c := start(t, nodes)
	// What somebody else bound counts too.
	for i := range 4 {
		create(t, c, newPod(fmt.Sprintf("fixed-%d", i), func(p *corev1.Pod) {
			p.Spec.NodeName = nodes[i].Name
			p.Spec.SchedulerName = "nobody"
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}))
	}
	run(t, c, "--fit=resources", "--workers=16", longBackoff, maxBackoff)
	cpu := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
		}
	}
	createMany(t, c, 40, "cpu", cpu("1500m"))
	waitIdle(t, c)
	requireFit(t, c, nodes)
	// 8 free CPUs on a node take 5 of them.
	if got := boundOf(list(t, c, "default"), "cpu-"); got != 20 {
		t.Errorf("%d pods of 1500m have a node, want the 20 that fit", got)
	}
	// As pods go, others take their place.
	for i := range 40 {
		if i%2 == 0 {
			c.Kubectl(t, "delete", "pod", fmt.Sprintf("cpu-%d", i), "--wait=false")
		}
	}
	createMany(t, c, 60, "small", cpu("1m"))
	framework.WaitForCondition(t, framework.WaitTimeout, "all 48 places to be taken", func() (bool, error) {
		pods := list(t, c, "default")
		got := boundOf(pods, "")
		return got == 48 && len(pods) == 4+20+60, fmt.Errorf("%d of %d pods have a node", got, len(pods))
	})
	requireFit(t, c, nodes)
}

// waitIdle waits until every pod of random-scheduler either has a node or has
// been told that there is none.
func waitIdle(t *testing.T, c *framework.Cluster) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "every pod to be decided on", func() (bool, error) {
		pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" && framework.PodScheduledCondition(pod) == nil {
				return false, fmt.Errorf("pod %s is not", pod.Name)
			}
		}
		return true, nil
	})
}

func boundOf(pods []corev1.Pod, prefix string) int {
	n := 0
	for i := range pods {
		if pods[i].Spec.NodeName != "" && strings.HasPrefix(pods[i].Name, prefix) {
			n++
		}
	}
	return n
}

// requireFit adds up what the API server has on each node.
func requireFit(t *testing.T, c *framework.Cluster, nodes []corev1.Node) {
	t.Helper()
	cpu, count := map[string]int64{}, map[string]int64{}
	for _, pod := range list(t, c, "") {
		cpu[pod.Spec.NodeName] += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		count[pod.Spec.NodeName]++
	}
	for i := range nodes {
		node := &nodes[i]
		if got, limit := cpu[node.Name], node.Status.Allocatable.Cpu().MilliValue(); got > limit {
			t.Errorf("%s holds %dm CPU, has %dm", node.Name, got, limit)
		}
		if got, limit := count[node.Name], node.Status.Allocatable.Pods().Value(); got > limit {
			t.Errorf("%s holds %d pods, has room for %d", node.Name, got, limit)
		}
	}
}
