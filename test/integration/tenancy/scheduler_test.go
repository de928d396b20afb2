// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// attack is a pod that wants to get onto tenant b's nodes and has no business
// there.
type attack struct {
	name      string
	namespace string
	// arm changes the pod before it is created.
	arm func(*corev1.Pod)
	// edit is a JSON patch on the waiting pod; empty for none.
	edit string
	// wantNode is where the pod ends up once there are more nodes; empty if it
	// named a node that it never gets.
	wantNode string
}

// attacks are what a pod's author can write into a pod of a Berth profile.
var attacks = []attack{
	{
		name:      "toleration",
		namespace: "team-a",
		arm:       func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerateAll },
		wantNode:  "a1",
	},
	{
		name:      "toleration-without-tenant",
		namespace: "no-tenant",
		arm:       func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerateAll },
		wantNode:  "shared",
	},
	{
		// b2 has no taint: only LabelPresence is left to say no.
		name:      "no-selector",
		namespace: "no-tenant",
		arm:       func(*corev1.Pod) {},
		wantNode:  "shared",
	},
	{
		name:      "selector-of-the-other-tenant",
		namespace: "team-a",
		arm: func(pod *corev1.Pod) {
			pod.Spec.Tolerations = tolerateAll
			pod.Spec.NodeSelector = map[string]string{names.TenantNodeLabel: "b"}
		},
	},
	{
		name:      "edited",
		namespace: "team-a-too", // editPod changes its label
		arm:       func(*corev1.Pod) {},
		edit: `[
			{"op": "add", "path": "/metadata/labels", "value": {"berth.dev/tenant": "b"}},
			{"op": "add", "path": "/metadata/annotations", "value": {"berth.dev/tenant": "b"}},
			{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]`,
		wantNode: "a1",
	},
	{
		// While a pod is gated, its selector and affinity may still be changed.
		name:      "edited-while-gated",
		namespace: "team-a",
		arm: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		},
		edit: `[
			{"op": "remove", "path": "/spec/schedulingGates"},
			{"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": "b1"}},
			{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]`,
	},
	{
		name:      "node-name-affinity",
		namespace: "team-a",
		arm: func(pod *corev1.Pod) {
			pod.Spec.Tolerations = tolerateAll
			pod.Spec.Affinity = pinTo("b1")
		},
	},
	{
		name:      "daemonset-owner",
		namespace: "no-tenant",
		arm: func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "forged", UID: "00000000-0000-0000-0000-000000000001", Controller: ptr.To(true),
			}}
			pod.Spec.Tolerations = tolerateAll
			pod.Spec.Affinity = pinTo("b2")
		},
	},
}

// schedulerRefuses: at first there are only nodes of tenant b, and every pod
// must wait for a reason that names the label. Then come a node of tenant a and
// one of nobody's, and every pod that named no node gets the one that is right for
// it. So the scheduler was not merely standing still.
func schedulerRefuses(t *testing.T) {
	c, _ := start(t, node("b1", "b"), untainted(node("b2", "b")))
	addNamespace(t, c, "team-a", "a")
	addNamespace(t, c, "team-a-too", "a")
	addNamespace(t, c, "team-b", "b")
	addNamespace(t, c, "no-tenant", "")

	// The garbage collector removes pods whose owner does not exist, so the forged
	// owner must exist: a DaemonSet that wants no node.
	forgedOwner := createDaemonSet(t, c, "no-tenant", "forged", map[string]string{"no": "such-node"})

	for _, tt := range attacks {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.namespace, tt.name)
			tt.arm(pod)
			for i := range pod.OwnerReferences {
				pod.OwnerReferences[i].UID = forgedOwner
			}
			created := c.CreatePod(t, pod)
			if tt.edit != "" {
				if len(created.Spec.SchedulingGates) == 0 {
					waitForRefusal(t, c, tt.namespace, tt.name)
				}
				editPod(t, c, created, tt.edit)
			}
			waitForRefusal(t, c, tt.namespace, tt.name)
		})
	}

	t.Run("own-daemonset", func(t *testing.T) {
		createDaemonSet(t, c, "team-a", "own", nil)
		for _, name := range waitForDaemonPods(t, c, "team-a", "own", "b1", "b2") {
			waitForRefusal(t, c, "team-a", name)
		}
	})

	c.CreateNode(t, node("a1", "a"))
	c.CreateNode(t, node("shared", ""))
	t.Run("the owner of the node is let in", func(t *testing.T) {
		pod := newPod("team-b", "owner")
		pod.Spec.Tolerations = tolerateTenants
		pod.Spec.Affinity = pinTo("b1")
		c.CreatePod(t, pod)
		c.WaitForPodRunning(t, "team-b", "owner")
	})
	for _, tt := range attacks {
		t.Run(tt.name+", with other nodes", func(t *testing.T) {
			if tt.wantNode == "" {
				waitForRefusal(t, c, tt.namespace, tt.name)
				return
			}
			if pod := c.WaitForPodScheduled(t, tt.namespace, tt.name); pod.Spec.NodeName != tt.wantNode {
				t.Errorf("the pod got node %s, want %s", pod.Spec.NodeName, tt.wantNode)
			}
		})
	}
	t.Run("own-daemonset, with other nodes", func(t *testing.T) {
		pods := waitForDaemonPods(t, c, "team-a", "own", "a1", "b1", "b2", "shared")
		c.WaitForPodScheduled(t, "team-a", pods["a1"])
		for _, nodeName := range []string{"b1", "b2"} {
			waitForRefusal(t, c, "team-a", pods[nodeName])
		}
		// Confined: not even a node that is nobody's.
		c.WaitForPodUnschedulable(t, "team-a", pods["shared"])
	})

	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Spec.NodeName, "b") && pod.Namespace != "team-b" {
			t.Errorf("pod %s/%s is on %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
}

// editPod patches a waiting pod and waits until the scheduler has judged it anew. Tenancy
// looks at nothing that a pod's author may edit, so no edit wakes a pod that it refused, and
// none changes what is said of it: the namespace, which loses its tenant and gets it back
// until the edit has been seen, does both. It has no node either way.
func editPod(t *testing.T, c *framework.Cluster, pod *corev1.Pod, patch string) {
	t.Helper()
	edited, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := c.Client.CoreV1().Namespaces().Get(t.Context(), pod.Namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tenant, said := namespace.Labels[names.TenantLabel], ""
	label := func(value any) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{names.TenantLabel: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), pod.Namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	taken := false
	c.WaitForPod(t, pod.Namespace, pod.Name, fmt.Sprintf("judged in generation %d", edited.Generation), func(pod *corev1.Pod) bool {
		condition := framework.PodScheduledCondition(pod)
		switch {
		case condition == nil:
		case condition.ObservedGeneration >= edited.Generation:
			return true
		case condition.Reason == corev1.PodReasonUnschedulable && condition.Message != said:
			said = condition.Message
			if taken = !taken; taken {
				label(nil)
			} else {
				label(tenant)
			}
		}
		return false
	})
	if taken {
		label(tenant)
	}
}

// createDaemonSet creates a DaemonSet of Berth's that tolerates every taint.
func createDaemonSet(t *testing.T, c *framework.Cluster, namespace, name string, nodeSelector map[string]string) types.UID {
	t.Helper()
	template := newPod(namespace, name)
	template.Labels = map[string]string{"daemon": name}
	template.Spec.Tolerations = tolerateAll
	template.Spec.NodeSelector = nodeSelector
	set, err := c.Client.AppsV1().DaemonSets(namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.UID
}

// waitForDaemonPods waits until the DaemonSet controller has made a pod for each
// of the nodes, and returns the pods' names by the node that they ask for.
func waitForDaemonPods(t *testing.T, c *framework.Cluster, namespace, name string, nodes ...string) map[string]string {
	t.Helper()
	var pods map[string]string
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("pods of DaemonSet %s for %v", name, nodes), func() (bool, error) {
		list, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "daemon=" + name})
		if err != nil {
			return false, err
		}
		pods = map[string]string{}
		for _, pod := range list.Items {
			for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				pods[term.MatchFields[0].Values[0]] = pod.Name
			}
		}
		for _, nodeName := range nodes {
			if pods[nodeName] == "" {
				return false, fmt.Errorf("so far: %v", pods)
			}
		}
		return true, nil
	})
	return pods
}
